// What looks like a launch, or like a quote, a comment or a directive, and is none.
// kernel<<<1, 2>>>(x); "unbalanced ' quote
/* block <<< ' "
   >>> comment (( [ { */
// This comment goes on \
   store<<<1, 1>>>(result, -1); asm("trap;");

#include <cstdio>
#include <cstring>

#if 0
It's text that nobody compiles: kernel<<<1, "
#error don't
#endif

#define APOSTROPHE '\''
#define QUOTE '"'   // " and '
#define TEXT "kernel<<<1, 1>>>(" /* " */ "x)"

int* result;
int failures = 0;

__global__ void store(int* p, int value) { *p = value; }

void expect(int line, bool right)
{
    if (!right) {
        std::printf("line %d is wrong\n", line);
        ++failures;
    }
}

#define EXPECT(condition) expect(__LINE__, condition)

int stored()
{
    int found = 0;
    if (cudaMemcpy(&found, result, sizeof found, cudaMemcpyDeviceToHost) != cudaSuccess)
        return -2;
    return found;
}

struct Stream {
    int value = 0;
};
template <class T> Stream& operator<<(Stream& s, T value) { s.value += int(value); return s; }

int main()
{
    cudaMalloc(&result, sizeof *result);
    const int million = 1'000'000;
    const double hexadecimal = 0x1p-2 + 1'0.5e+1'0 * 0;
    store<<<1, 1>>>(result, million / 1'000); EXPECT(stored() == 1000);
    EXPECT(hexadecimal == 0.25);
    const char c = '"'; store<<<1, 1>>>(result, c); EXPECT(stored() == '"');
    const char d = '\''; store<<<1, 1>>>(result, d); EXPECT(stored() == '\'');
    const char e = '\\'; store<<<1, 1>>>(result, e); EXPECT(stored() == '\\');
    const wchar_t f = L'<'; store<<<1, 1>>>(result, f); EXPECT(stored() == '<');
    store<<<1, 1>>>(result, APOSTROPHE + QUOTE); EXPECT(stored() == '\'' + '"');
    const char* strings[] = {"store<<<1, 1>>>(result, 1)", "\"<<<\\", "\\", u8"<<<", "'", "//", "/*",
                             "a \
continued <<< string"};
    store<<<1, 1>>>(result, int(sizeof strings / sizeof *strings)); EXPECT(stored() == 8);
    const char* raw = R"(a "raw" <<< string \)"; store<<<1, 1>>>(result, 2); EXPECT(stored() == 2);
    const char* marked = R"x(<<<)" ' // >>>)x"; store<<<1, 1>>>(result, 3); EXPECT(stored() == 3);
    const char* lines = R"--(one
store<<<1, 1>>>(result, -1);
three \
)")--"; store<<<1, 1>>>(result, 4); EXPECT(stored() == 4);
    const wchar_t* wide = LR"(<<<)"; const char16_t* u16 = uR"(")"; const char32_t* u32 = UR"(')";
    const auto* u8 = u8R"(")"; store<<<1, 1>>>(result, int(wide[0] + u16[0] + u32[0] + u8[0]));
    EXPECT(stored() == '<' + '"' + '\'' + '"');
    const char* not_raw = "R"
        "(<<<"; const char* prefix_R = TEXT;
    store<<<1, 1>>>(result, int(std::strlen(raw) + std::strlen(marked) + std::strlen(lines)));
    EXPECT(stored() == 20 + 14 + 43);
    EXPECT(!std::strcmp(not_raw, "R(<<<") && !std::strcmp(prefix_R, "kernel<<<1, 1>>>(x)"));
    store<<<1, 1>>>(result, 5); // the next line is a comment, too \
    store<<<1, 1>>>(result, 6);
    EXPECT(stored() == 5);
    store<<<1, 1>>>(result, 7 /* ) >>> */); EXPECT(stored() == 7);
    int x = 256; x >>= 1; x <<= 2; x = x >> 1 << 3 >> 2; EXPECT(x == 512);
    Stream s; s << 1 << (2 < 3) << (4 >> 1); operator<< <int>(s, 5); EXPECT(s.value == 9);
    EXPECT(std::strstr(__FILE__, "text.cu") && __LINE__ == 84);
    cudaFree(result);
    std::puts(failures ? "FAIL: some line is wrong" : "PASS");
    return failures != 0;
}
