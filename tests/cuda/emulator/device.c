/* A pretended GPU: memory that knows what is allocated, blocks of lanes as fibers, and a watch over what they do.

   One block runs after the other. Between two barriers the lanes of a block run one after the other, each until it
   waits, in an order that is shuffled anew each time. Every access is checked against the allocations and against what
   other lanes did since the last barrier and other blocks since the launch began.

   A block may consist of units of a few lanes each that have nothing to do with each other, several in a warp: each is
   watched as if it were a block, and its barriers are those of its lanes. */
#define _GNU_SOURCE
#include "lane.h"
#include <fenv.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#define ARENA ((uint64_t)1 << 31) /* bytes of global memory; only what is touched costs anything */
#define STACK ((size_t)1 << 19)
#define GUARD 256
#define LANES 1024
#define SHARED 65536
#define REPORTS 64
#define RUNAWAY 20000000u /* basic blocks of a lane between two waits; more is an endless loop */

enum { READY, AT_BARRIER, AT_WARP, DONE };
/* See WHAT in device.py. */
enum {
    LANE_WRITE_READ, LANE_WRITE_WRITE, LANE_READ_WRITE, BLOCK_WRITE_READ, BLOCK_WRITE_WRITE, BLOCK_READ_WRITE,
    OUT_OF_BOUNDS, MISALIGNED, UNSET_SHARED, BARRIER_DIVERGED, BARRIER_LEFT, WARP_DIVERGED, ENDLESS, TRAPPED, STORE_TO_CONSTANT
};

typedef struct { int32_t kind, site, other_site, lane, other_lane, block, other_block, size; uint64_t address, count; } report_t;
typedef struct {
    uint32_t write_epoch, read_epoch, write_block, read_block;
    int32_t write_site, read_site;
    int16_t write_lane, read_lane; /* MANY: several */
    uint8_t write_bytes, read_bytes, is_atomic, many_blocks;
} cell_t;
typedef struct { uint32_t read_block, write_block; } sector_t;
typedef struct { uint32_t epoch, count; } tally_t;
enum { MANY = -2, PHASES = 256 };

static char* arena;
static uint64_t top = GUARD;
static uint8_t* valid;    /* of each 8 bytes of the arena, how many are allocated */
static cell_t* cells;     /* of each 4 bytes */
static sector_t* sectors; /* of each 32 bytes */
static cell_t shared_cells[SHARED / 4];
static uint8_t shared_set[SHARED];
static char shared_memory[SHARED] __attribute__((aligned(256)));
static uint64_t shared_size;

static lane_t lanes[LANES];
static jmp_buf resume_at[LANES], scheduler;
static ucontext_t start_at[LANES];
static lane_t* current;
static lane_function function;
static char** params;
static uint64_t rng;
static uint32_t epoch = 1, block = 1, first_block = 1, next_block = 2, steps; /* a unit has a number as blocks have */
static uint32_t unit; /* lanes of a unit that is a part of a warp; 0 if the block is one */
static uint64_t scrap[4];
static const char *constants, *constants_end;

static tally_t *lane_tally, *warp_tally;
static uint32_t basic_blocks;
static uint64_t *issued, *executed;

report_t reports[REPORTS];
int report_count;
uint64_t barriers, warp_barriers, warp_waits, sectors_read, sectors_written;
int watch_races = 1;
int skipped_barrier; /* the line of one that is left out, to see whether that is noticed */

static void* reserve(size_t bytes) {
    void* p = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? 0 : p;
}

/* --- memory ------------------------------------------------------------------------------------------------------ */

static void mark(uint64_t at, uint64_t bytes, int is_valid) {
    memset(valid + at / 8, is_valid ? 8 : 0, bytes / 8);
    if (bytes % 8) valid[(at + bytes) / 8] = is_valid ? bytes % 8 : 0;
}

void* device_alloc(uint64_t bytes) {
    if (!arena) {
        arena = reserve(ARENA), valid = reserve(ARENA / 8);
        cells = reserve(ARENA / 4 * sizeof(cell_t)), sectors = reserve(ARENA / 32 * sizeof(sector_t));
        if (!arena || !valid || !cells || !sectors) return 0;
    }
    if (top + bytes + 2 * GUARD > ARENA) return 0;
    uint64_t at = top;
    top += (bytes + 2 * GUARD - 1) / GUARD * GUARD;
    mark(at, bytes, 1);
    memset(arena + at, 0xff, bytes); /* what nobody has set is NaN, or -1 */
    return arena + at;
}

/* Memory is not given out again: whoever uses it after this is caught. */
void device_free(char* p, uint64_t bytes) {
    mark(p - arena, bytes, 0);
    uint64_t from = (uint64_t)(p + 4095) & ~4095ull, to = (uint64_t)(p + bytes) & ~4095ull;
    if (to > from) madvise((void*)from, to - from, MADV_DONTNEED);
}

/* --- the watch --------------------------------------------------------------------------------------------------- */

static void report(int kind, const lane_t* L, int site, int other_site, int other_lane, uint32_t other_block, uint64_t address, int size) {
    for (int i = 0; i < report_count; ++i) {
        report_t* r = reports + i;
        if (r->kind == kind && r->site == site && r->other_site == other_site) { r->count++; return; }
    }
    if (report_count == REPORTS) return;
    int other = other_block ? (int)(other_block - first_block) : -1;
    reports[report_count++] = (report_t){kind, site, other_site, L->tid, other_lane, L->ctaid, other, size, address, 1};
}

/* A word of 4 bytes, of which those in `bytes` are touched. Shared words are of one block only. */
static void touch(cell_t* c, const lane_t* L, uint8_t bytes, int kind, int site, int is_shared, uint64_t address, int size) {
    int lane = (int)L->tid;
    int both_atomic = kind == ATOMIC && c->is_atomic;
    uint32_t epoch = L->epoch, block = L->owner;
    int written = c->write_epoch == epoch && c->write_lane != lane && (c->write_bytes & bytes) && !both_atomic;
    int written_by_block = !is_shared && c->write_block >= first_block && c->write_block != block && (c->write_bytes & bytes) && !both_atomic;
    if (written) report(kind == READ ? LANE_WRITE_READ : LANE_WRITE_WRITE, L, site, c->write_site, c->write_lane, 0, address, size);
    if (written_by_block) report(kind == READ ? BLOCK_WRITE_READ : BLOCK_WRITE_WRITE, L, site, c->write_site, c->write_lane, c->write_block, address, size);
    if (kind == READ) {
        if (c->read_epoch != epoch) c->read_lane = lane, c->read_bytes = 0;
        else if (c->read_lane != lane) c->read_lane = MANY;
        c->many_blocks = c->read_block >= first_block && (c->many_blocks || c->read_block != block);
        c->read_epoch = epoch, c->read_block = block, c->read_site = site, c->read_bytes |= bytes;
        return;
    }
    if (c->read_epoch == epoch && c->read_lane != lane && (c->read_bytes & bytes))
        report(LANE_READ_WRITE, L, site, c->read_site, c->read_lane, 0, address, size);
    if (!is_shared && c->read_block >= first_block && (c->many_blocks || c->read_block != block))
        report(BLOCK_READ_WRITE, L, site, c->read_site, c->read_lane, c->read_block, address, size);
    if (c->write_epoch != epoch) c->write_bytes = 0;
    c->write_lane = c->write_bytes & ~bytes && c->write_lane != lane ? MANY : lane;
    c->write_epoch = epoch, c->write_block = block, c->write_site = site, c->write_bytes |= bytes, c->is_atomic = kind == ATOMIC;
}

static void touch_words(cell_t* base, uint64_t offset, uint32_t size, const lane_t* L, int kind, int site, int is_shared, uint64_t address) {
    if (!watch_races) return;
    for (uint32_t done = 0; done < size;) {
        uint32_t at = (offset + done) & 3, count = 4 - at < size - done ? 4 - at : size - done;
        touch(base + (offset + done) / 4, L, ((1u << count) - 1) << at, kind, site, is_shared, address, size);
        done += count;
    }
}

static void count_sector(uint64_t offset, int kind) {
    sector_t* s = sectors + offset / 32;
    if (kind == READ && s->read_block != block) {
        s->read_block = block;
        if (s->write_block != block) ++sectors_read;
    } else if (kind != READ && s->write_block != block) {
        s->write_block = block;
        ++sectors_written;
    }
}

static int is_allocated(uint64_t offset, uint32_t size) {
    for (; size > 8; offset += 8, size -= 8)
        if (valid[offset / 8] < 8) return 0;
    return (offset & 7) + size <= valid[offset / 8];
}

void* rt_access(lane_t* L, uint64_t address, uint32_t size, int kind, int site) {
    uint64_t offset = address - (uint64_t)arena;
    if (address & (size - 1)) {
        report(MISALIGNED, L, site, 0, -1, 0, address, size);
        return scrap;
    }
    if (offset < ARENA && is_allocated(offset, size)) {
        touch_words(cells, offset, size, L, kind, site, 0, address);
        count_sector(offset, kind);
        return (void*)address;
    }
    offset = address - (uint64_t)L->shared;
    if (offset + size <= shared_size) {
        touch_words(shared_cells, offset, size, L, kind, site, 1, address);
        if (kind != WRITE && !shared_set[offset]) report(UNSET_SHARED, L, site, 0, -1, 0, offset, size);
        if (kind != READ) memset(shared_set + offset, 1, size);
        return (void*)address;
    }
    if (address >= (uint64_t)L->stack && address + size <= (uint64_t)L->stack + STACK) return (void*)address;
    if (address >= (uint64_t)constants && address + size <= (uint64_t)constants_end) {
        if (kind == READ) return (void*)address;
        report(STORE_TO_CONSTANT, L, site, 0, -1, 0, address, size);
        return scrap;
    }
    report(OUT_OF_BOUNDS, L, site, 0, -1, 0, address, size);
    return scrap;
}

/* A basic block is issued to a warp as often as the lane of the warp that runs it most often since the last barrier.
   Units of a warp go together where they have passed as many barriers; one that has taken another way is issued alone. */
void rt_count(lane_t* L, uint32_t b) {
    tally_t* mine = lane_tally + (uint64_t)L->tid * basic_blocks + b;
    tally_t* most = warp_tally + (uint64_t)(L->tid / 32) * basic_blocks + b;
    uint32_t since = L->epoch;
    if (unit) most += (uint64_t)L->phase * (LANES / 32) * basic_blocks, since = block;
    if (mine->epoch != L->epoch) mine->epoch = L->epoch, mine->count = 0;
    if (most->epoch != since) most->epoch = since, most->count = 0;
    executed[b]++;
    if (++mine->count > most->count) most->count = mine->count, issued[b]++;
    if (++steps > RUNAWAY) {
        report(ENDLESS, L, 0, 0, -1, 0, 0, 0);
        longjmp(scheduler, 2);
    }
}

/* --- lanes and blocks -------------------------------------------------------------------------------------------- */

static void wait_as(lane_t* L, int state, int site) {
    L->state = state, L->site = site;
    if (!_setjmp(resume_at[L->tid])) _longjmp(scheduler, 1);
}

void rt_barrier(lane_t* L, int site) {
    if (site != skipped_barrier) L->by_warp = 0, wait_as(L, AT_BARRIER, site);
}

static uint32_t lanes_of_unit(const lane_t* L) { return ((1u << unit) - 1) << (L->tid & 31 & ~(unit - 1)); }

/* A block of one warp has no other barrier than this one, nor has a unit; else only the lanes in `mask` wait. */
void rt_warp_barrier(lane_t* L, uint32_t mask, int site) {
    if (unit && mask == lanes_of_unit(L)) {
        if (site != skipped_barrier) L->by_warp = 1, rt_warp(L, mask, 0, site);
    } else if (L->ntid > 32 || mask != ~0u) rt_warp(L, mask, 0, site);
    else if (site != skipped_barrier) L->by_warp = 1, wait_as(L, AT_BARRIER, site);
}

void rt_warp(lane_t* L, uint32_t mask, uint32_t value, int site) {
    L->mask = mask, L->posted = value;
    wait_as(L, AT_WARP, site);
}

uint32_t rt_shuffle(lane_t* L, int mode, uint32_t value, uint32_t b, uint32_t c, uint32_t mask, uint8_t* in_range, int site) {
    rt_warp(L, mask, value, site);
    uint32_t me = L->tid & 31, segment = (c >> 8) & 31, clamp = c & 31;
    uint32_t max = (me & segment) | (clamp & ~segment), min = me & segment;
    int32_t from;
    b &= 31;
    if (mode == SHUFFLE_UP) from = (int32_t)me - (int32_t)b, *in_range = from >= (int32_t)max;
    else if (mode == SHUFFLE_DOWN) from = me + b, *in_range = from <= (int32_t)max;
    else if (mode == SHUFFLE_BFLY) from = me ^ b, *in_range = from <= (int32_t)max;
    else from = min | (b & ~segment), *in_range = from <= (int32_t)max;
    if (!*in_range) from = me;
    if (!(mask >> from & 1)) report(WARP_DIVERGED, L, site, site, from, 0, 0, 0);
    return lanes[(L->tid & ~31u) + from].given;
}

uint32_t rt_ballot(lane_t* L, uint32_t predicate, uint32_t mask, int site) {
    rt_warp(L, mask, predicate != 0, site);
    uint32_t votes = 0;
    for (uint32_t l = 0; l < 32; ++l)
        if (mask >> l & 1) votes |= lanes[(L->tid & ~31u) + l].given << l;
    return votes;
}

void rt_trap(lane_t* L, int site) {
    report(TRAPPED, L, site, 0, -1, 0, 0, 0);
    longjmp(scheduler, 2);
}

float rt_fma_down(float a, float b, float c) {
    volatile float x = a, y = b, z = c;
    fesetround(FE_DOWNWARD);
    volatile float result = fmaf(x, y, z);
    fesetround(FE_TONEAREST);
    return result;
}

static void begin_lane(void) {
    lane_t* L = current;
    function(L, params);
    L->state = DONE;
    _longjmp(scheduler, 1);
}

static uint32_t random_below(uint32_t n) {
    rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
    return (uint32_t)(rng >> 33) % n;
}

static void shuffle(uint32_t* order, uint32_t n) {
    for (uint32_t i = 0; i < n; ++i) order[i] = i;
    if (rng)
        for (uint32_t i = n - 1; i > 0; --i) {
            uint32_t k = random_below(i + 1), t = order[i];
            order[i] = order[k], order[k] = t;
        }
}

static int start_lanes(uint32_t id, uint32_t ntid, uint32_t nctaid) {
    for (uint32_t l = 0; l < ntid; ++l) {
        lane_t* L = lanes + l;
        if (!L->stack && !(L->stack = reserve(STACK))) return 0;
        char* stack = L->stack;
        uint32_t owner = block + (unit ? l / unit : 0);
        *L = (lane_t){.epoch = epoch, .owner = owner, .tid = l, .ctaid = id, .ntid = ntid, .nctaid = nctaid, .shared = shared_memory, .stack = stack, .state = READY, .site = -1};
    }
    memset(shared_set, 0, sizeof shared_set);
    memset(shared_memory, 0xff, shared_size);
    memset(shared_cells, 0, (shared_size + 3) / 4 * sizeof(cell_t));
    return 1;
}

/* Run a lane until it waits or ends; 0 if the launch has to stop. */
static int run_lane(lane_t* L, int is_new) {
    current = L, steps = 0;
    int came_back = _setjmp(scheduler);
    if (came_back) return came_back == 1;
    if (!is_new) _longjmp(resume_at[L->tid], 1);
    ucontext_t* context = start_at + L->tid;
    getcontext(context);
    context->uc_stack.ss_sp = L->stack, context->uc_stack.ss_size = STACK, context->uc_link = 0;
    makecontext(context, begin_lane, 0);
    setcontext(context);
    return 0;
}

static void pass_barrier(lane_t* L) {
    L->by_warp = 0, L->epoch = epoch;
    if (L->phase < PHASES - 1) ++L->phase;
}

/* Let go the warps whose lanes have come to the same operation; how many lanes. */
static int release_warps(uint32_t ntid) {
    int released = 0;
    for (uint32_t l = 0; l < ntid; ++l) {
        lane_t *L = lanes + l, *warp = lanes + (l & ~31u);
        if (L->state != AT_WARP) continue;
        int complete = 1;
        for (uint32_t k = 0; k < 32; ++k)
            if (L->mask >> k & 1 && (l & ~31u) + k < ntid)
                complete &= warp[k].state == AT_WARP && warp[k].site == L->site && warp[k].mask == L->mask;
        if (!complete) continue;
        uint32_t mask = L->mask;
        int is_barrier = L->by_warp;
        epoch += is_barrier, warp_barriers += is_barrier;
        for (uint32_t k = 0; k < 32; ++k)
            if (mask >> k & 1 && (l & ~31u) + k < ntid) {
                warp[k].given = warp[k].posted, warp[k].state = READY, ++released;
                if (is_barrier) pass_barrier(warp + k);
            }
        ++warp_waits;
    }
    return released;
}

/* Let go a barrier that all lanes have come to; 0 if they cannot. */
static int release_barrier(uint32_t ntid) {
    const lane_t *waiting = 0, *left = 0, *stuck = 0;
    for (uint32_t l = 0; l < ntid; ++l) {
        lane_t* L = lanes + l;
        if (L->state == DONE) left = L;
        if (L->state == AT_WARP) stuck = L;
        if (L->state != AT_BARRIER) continue;
        if (waiting && waiting->site != L->site) {
            report(BARRIER_DIVERGED, L, L->site, waiting->site, waiting->tid, 0, 0, 0);
            return 0;
        }
        waiting = L;
    }
    if (stuck) report(WARP_DIVERGED, stuck, stuck->site, waiting ? waiting->site : 0, waiting ? (int)waiting->tid : -1, 0, 0, 0);
    else if (left) report(BARRIER_LEFT, waiting, waiting->site, 0, left->tid, 0, 0, 0);
    if (stuck || left) return 0;
    if (waiting->by_warp) ++warp_barriers;
    else ++barriers;
    ++epoch;
    for (uint32_t l = 0; l < ntid; ++l) lanes[l].state = READY, pass_barrier(lanes + l);
    return 1;
}

static int run_block(uint32_t id, uint32_t ntid, uint32_t nctaid) {
    static uint32_t order[LANES];
    block = next_block, next_block += unit ? ntid / unit : 1;
    ++epoch;
    if (!start_lanes(id, ntid, nctaid)) return 0;
    for (int is_new = 1;; is_new = 0) {
        uint32_t done = 0;
        shuffle(order, ntid);
        for (uint32_t i = 0; i < ntid; ++i) {
            lane_t* L = lanes + order[i];
            if (L->state == READY && !run_lane(L, is_new)) return 0;
            done += L->state == DONE;
        }
        if (done == ntid) return 1;
        if (!release_warps(ntid) && !release_barrier(ntid)) return 0;
    }
}

/* Launch a grid. `counts` has 2 * blocks_of_code entries that grow: issued to warps, executed by lanes. Returns 0 if
   it had to stop: the reports say why. `seed` 0 keeps blocks and lanes in order. `unit_lanes` is 0, or how many of them
   are a unit. */
int device_launch(lane_function f, char** arguments, uint32_t nctaid, uint32_t ntid, uint32_t unit_lanes,
                  uint32_t shared_bytes, uint64_t seed, uint32_t blocks_of_code, uint64_t* counts, const char* const_begin, const char* const_end) {
    function = f, params = arguments, shared_size = shared_bytes, unit = unit_lanes;
    constants = const_begin, constants_end = const_end;
    rng = seed ? seed * 0x9E3779B97F4A7C15ull | 1 : 0;
    basic_blocks = blocks_of_code, issued = counts, executed = counts + blocks_of_code;
    lane_tally = calloc((size_t)ntid * basic_blocks, sizeof(tally_t));
    warp_tally = calloc((size_t)(unit ? PHASES * (LANES / 32) : (ntid + 31) / 32) * basic_blocks, sizeof(tally_t));
    uint32_t* order = malloc(nctaid * sizeof *order);
    shuffle(order, nctaid);
    first_block = next_block;
    int ok = shared_bytes <= SHARED && ntid <= LANES;
    for (uint32_t i = 0; ok && i < nctaid; ++i) ok = run_block(order[i], ntid, nctaid);
    free(lane_tally), free(warp_tally), free(order);
    return ok;
}
