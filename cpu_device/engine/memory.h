// The memory that the runtime API hands out, and what it knows of other memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

namespace cpu_device {

enum class Kind { device, managed, managed_variable, pinned, registered, symbol };

struct Buffer {
    char* start;
    size_t bytes;
    Kind kind;
    char* map = nullptr;                   // its pages
    size_t map_bytes = 0;
    char* reserved = nullptr;              // these and closed ones on both sides
    size_t reserved_bytes = 0;
    bool open = false;                     // device memory: may it be touched now?

    bool contains(const void* address) const
    {
        const char* const at = static_cast<const char*>(address);
        return at >= start && at < start + bytes;
    }
};

class Memory {
public:
    explicit Memory(size_t bytes);

    size_t total_bytes() const { return total; }
    size_t free_bytes() const { return total - used; }

    // Null when there is no room. Device memory is closed and full of 0xFF.
    Buffer* allocate(size_t bytes, Kind kind);
    Buffer* add(void* start, size_t bytes, Kind kind);
    void free(Buffer& buffer);
    void free_all();

    // The buffer with this address in it; one that overlaps this range; one that starts here.
    Buffer* find(const void* address);
    Buffer* overlapping(const void* start, size_t bytes);
    Buffer* starting_at(const void* start);

    // Device memory is closed while host code runs.
    void open(Buffer& buffer);
    void open_all();
    void close_all();

    // Is this in a variable of the device?
    static bool is_variable(const void* address);
    static bool has_variables();
    static void set_variables_open(bool open);

    // Of the buffers that were there, the one nearest to an address that lies in none.
    struct Neighbour {
        const Buffer* buffer;
        bool freed;
    };
    Neighbour near(const void* address) const;

    // Is there memory of the host at this address, and not just nothing, or a place beside a buffer?
    bool is_of_host(const void* address) const;

private:
    const size_t total;
    size_t used = 0;
    bool all_open = false;
    std::map<uintptr_t, Buffer> buffers;
    std::deque<Buffer> freed;              // the last; none of the host's lies in their place

    void add_managed_variables();
};

}  // namespace cpu_device
