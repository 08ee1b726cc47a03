/* What translated PTX calls. A lane is one fiber; all its state beside the C stack is here.

   Addresses are those of the host: global memory lies in the arena of device.c, shared memory behind `shared`, local
   memory on the lane's stack. `site` is the line of the PTX text, for messages. */
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { READ, WRITE, ATOMIC };
enum { SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_BFLY, SHUFFLE_IDX };

typedef struct lane {
    uint32_t tid, ctaid, ntid, nctaid;
    uint32_t epoch, phase, owner; /* since its last barrier, how many it has passed, and the block or unit it is of */
    char* shared;
    char* stack;
    uint32_t carry; /* of add.cc and its kin */
    int state, site, by_warp;
    uint32_t mask, posted, given; /* of warp operations */
} lane_t;

typedef void (*lane_function)(lane_t*, char** params);

/* Where an access of `size` bytes may go: the address, or a dummy if it is reported as wrong. */
void* rt_access(lane_t*, uint64_t address, uint32_t size, int kind, int site);
void rt_count(lane_t*, uint32_t basic_block);
void rt_barrier(lane_t*, int site);
void rt_warp_barrier(lane_t*, uint32_t mask, int site);
/* Wait for the lanes in `mask` of this warp; afterwards the values they posted can be asked for. */
void rt_warp(lane_t*, uint32_t mask, uint32_t value, int site);
uint32_t rt_shuffle(lane_t*, int mode, uint32_t value, uint32_t b, uint32_t c, uint32_t mask, uint8_t* in_range, int site);
uint32_t rt_ballot(lane_t*, uint32_t predicate, uint32_t mask, int site);
void rt_trap(lane_t*, int site);
float rt_fma_down(float a, float b, float c); /* rounded towards minus infinity */

#define LOAD(T, a, site) (*(T*)rt_access(L, (a), sizeof(T), READ, site))
#define STORE(T, a, v, site) (*(T*)rt_access(L, (a), sizeof(T), WRITE, site) = (v))

static inline float as_f32(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
static inline uint32_t bits_f32(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }
static inline double as_f64(uint64_t u) { double f; memcpy(&f, &u, 8); return f; }
static inline uint64_t bits_f64(double f) { uint64_t u; memcpy(&u, &f, 8); return u; }

static inline uint64_t bit_insert(uint64_t a, uint64_t b, uint32_t at, uint32_t count, uint32_t width) {
    at &= 255;
    count &= 255;
    if (at >= width || count == 0) return b;
    uint64_t mask = count >= 64 ? ~0ull : (1ull << count) - 1;
    mask <<= at;
    return (b & ~mask) | ((a << at) & mask);
}
static inline uint64_t bit_extract(uint64_t a, uint32_t at, uint32_t count, uint32_t width) {
    at &= 255;
    count &= 255;
    if (at >= width || count == 0) return 0;
    uint64_t mask = count >= 64 ? ~0ull : (1ull << count) - 1;
    return (a >> at) & mask;
}
static inline uint32_t permute(uint32_t a, uint32_t b, uint32_t selector) {
    uint64_t bytes = ((uint64_t)b << 32) | a;
    uint32_t result = 0;
    for (int i = 0; i < 4; ++i) {
        uint32_t s = selector >> (4 * i);
        uint8_t byte = (uint8_t)(bytes >> (8 * (s & 7)));
        if (s & 8) byte = byte & 0x80 ? 0xff : 0;
        result |= (uint32_t)byte << (8 * i);
    }
    return result;
}
