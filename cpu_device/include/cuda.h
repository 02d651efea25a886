// Many programs include this header and use nothing of it but the version. The driver API, which it
// declares, is not here: cu2cpp refuses a call of it, with its line.
#pragma once

#define CUDA_VERSION 13000
