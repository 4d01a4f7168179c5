// Content of blocks made and checked by a GPU: the same bytes from the same names as `fill` makes,
// whose documentation says what they are. `content.ptx` is made from this file by
// tools/gpu-kernels. A thread is a lane; eight threads are a block's eight generators. The part
// above the kernels is plain C, so that a test compiles it for the host and compares.

typedef unsigned long long u64;

#ifndef DEVICE
#define DEVICE static __device__ __forceinline__
#define KERNELS
#endif

#define LANES 8
#define STEPS 64 // outputs of a lane: 4096 bytes / 8 lanes / 8 bytes
#define GOLDEN 0x9e3779b97f4a7c15ull
#define THIRD_WORD 0x243f6a8885a308d3ull
#define FOURTH_WORD 0x13198a2e03707344ull

struct lane {
    u64 s0, s1, s2, s3;
};

DEVICE u64 rotate(u64 x, int by) { return (x << by) | (x >> (64 - by)); }

DEVICE u64 mix64(u64 x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

// Lane `index` of block `block` of the entry whose name hashes to `low` and `high`.
DEVICE struct lane lane_start(u64 low, u64 high, u64 block, u64 index) {
    u64 offset = (block * LANES + index) * GOLDEN;
    struct lane lane;
    lane.s0 = mix64(low + offset);
    lane.s1 = mix64(high + offset);
    lane.s2 = rotate(lane.s0, 32) ^ THIRD_WORD;
    lane.s3 = rotate(lane.s1, 32) ^ FOURTH_WORD;
    return lane;
}

DEVICE u64 lane_next(struct lane *lane) {
    u64 output = rotate(lane->s0 + lane->s3, 23) + lane->s0;
    u64 shifted = lane->s1 << 17;
    lane->s2 ^= lane->s0;
    lane->s3 ^= lane->s1;
    lane->s1 ^= lane->s2;
    lane->s0 ^= lane->s3;
    lane->s2 ^= shifted;
    lane->s3 = rotate(lane->s3, 45);
    return output;
}

#ifdef KERNELS

// Makes `blocks` blocks at `piece`, numbered from `first_block` on.
extern "C" __global__ void ringfall_fill(u64 *piece, u64 low, u64 high, u64 first_block,
                                         u64 blocks) {
    u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    u64 stride = (u64)gridDim.x * blockDim.x / LANES;
    u64 index = thread % LANES;
    for (u64 block = thread / LANES; block < blocks; block += stride) {
        struct lane lane = lane_start(low, high, first_block + block, index);
        u64 *at = piece + block * (LANES * STEPS) + index;
        for (int step = 0; step < STEPS; step++) {
            at[step * LANES] = lane_next(&lane);
        }
    }
}

// Compares the same with what is there: `steps` outputs of the first `lanes` lanes of each block.
// Adds the number of blocks that differ to result[0], and lowers result[1] to the number of the
// first of them. All threads of a warp stay together, for the vote.
extern "C" __global__ void ringfall_check(const u64 *piece, u64 low, u64 high, u64 first_block,
                                          u64 blocks, u64 steps, u64 lanes, u64 *result) {
    u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    u64 stride = (u64)gridDim.x * blockDim.x / LANES;
    u64 index = thread % LANES;
    u64 warp_first = thread / 32 * (32 / LANES);
    for (u64 base = warp_first; base < blocks; base += stride) {
        u64 block = base + thread % 32 / LANES;
        bool differs = false;
        if (block < blocks && index < lanes) {
            struct lane lane = lane_start(low, high, first_block + block, index);
            const u64 *at = piece + block * (LANES * STEPS) + index;
            for (u64 step = 0; step < steps; step++) {
                differs |= at[step * LANES] != lane_next(&lane);
            }
        }
        unsigned votes = __ballot_sync(0xffffffffu, differs);
        unsigned of_block = votes >> (thread % 32 / LANES * LANES) & 0xffu;
        if (index == 0 && of_block != 0) {
            atomicAdd(&result[0], 1ull);
            atomicMin(&result[1], first_block + block);
        }
    }
}

#endif
