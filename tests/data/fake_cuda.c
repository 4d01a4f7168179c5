/* A stand-in for libcuda.so.1: what the program calls of it, done by the host. A thread of its own
 * does what streams hold, one thing after the other, so that work ends later than it is begun, as
 * on a GPU. The content is made by the kernels' own source. Misuse ends the process with a message.
 *
 * FAKE_CUDA says what goes wrong: no_device, mismatch, garbage, old, full, lost (after a while),
 * unlocked (no host memory can be page-locked), few_pages (little of it can), starved (after a while
 * copies find no memory, as when another process has taken it), or works.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DEVICE static inline
#include "content.cu"

typedef void (*host_function)(void *);

#define TOTAL_BYTES (8ull << 30)

enum kind { COPY, KERNEL, EVENT, HOST };

struct event {
    int is_done;
    double at_ms;
};

struct work {
    enum kind kind;
    void *to;
    const void *from;
    size_t bytes;
    int kernel;
    u64 words[8];
    struct event *event;
    host_function call;
    void *argument;
    struct work *next;
};

static const char *mode;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct work *first, **last = &first;
static int is_busy, launches;
static char *memory[4];
static size_t memory_bytes[4];
static __thread int current = -1;

static void misuse(const char *what, ...) {
    va_list arguments;
    va_start(arguments, what);
    fprintf(stderr, "fake libcuda: ");
    vfprintf(stderr, what, arguments);
    fprintf(stderr, "\n");
    abort();
}

static int is(const char *name) { return mode != NULL && strcmp(mode, name) == 0; }

static char *on_device(u64 address, size_t bytes) {
    if (current < 0) misuse("no context is current");
    char *at = (char *)address;
    for (int device = 0; device < 4; device++) {
        char *start = memory[device];
        if (start && at >= start && at + bytes <= start + memory_bytes[device]) {
            if (device != current) misuse("memory of device %d used on %d", device, current);
            return at;
        }
    }
    misuse("%zu bytes at %llx are not on a device", bytes, address);
    return NULL;
}

static void run_kernel(struct work *work) {
    u64 *words = work->words, *piece = (u64 *)words[0], steps = STEPS, lanes = LANES;
    u64 *result = NULL;
    if (work->kernel == 2) {
        steps = words[5];
        lanes = words[6];
        result = (u64 *)words[7];
    }
    for (u64 block = 0; block < words[4]; block++) {
        int differs = 0;
        for (u64 index = 0; index < lanes; index++) {
            struct lane lane = lane_start(words[1], words[2], words[3] + block, index);
            u64 *at = piece + block * (LANES * STEPS) + index;
            for (u64 step = 0; step < steps; step++) {
                u64 output = lane_next(&lane);
                if (result == NULL) at[step * LANES] = output;
                differs |= at[step * LANES] != output;
            }
        }
        if (differs) {
            result[0]++;
            if (words[3] + block < result[1]) result[1] = words[3] + block;
        }
    }
}

static void *worker(void *unused) {
    pthread_mutex_lock(&lock);
    for (;;) {
        while (first == NULL) pthread_cond_wait(&changed, &lock);
        struct work *work = first;
        first = work->next;
        if (first == NULL) last = &first;
        is_busy = 1;
        pthread_mutex_unlock(&lock);
        struct timespec now;
        switch (work->kind) {
        case COPY: memcpy(work->to, work->from, work->bytes); break;
        case KERNEL: run_kernel(work); break;
        case HOST: work->call(work->argument); break;
        case EVENT:
            clock_gettime(CLOCK_MONOTONIC, &now);
            work->event->at_ms = now.tv_sec * 1e3 + now.tv_nsec / 1e6;
            break;
        }
        pthread_mutex_lock(&lock);
        if (work->kind == EVENT) work->event->is_done = 1;
        free(work);
        is_busy = 0;
        pthread_cond_broadcast(&changed);
    }
    return unused;
}

static int add(struct work work) {
    if (is("lost") && ++launches > 300) return 719;
    if (is("starved") && work.kind == COPY && ++launches > 300 && launches % 50 == 0) return 2;
    struct work *copy = malloc(sizeof work);
    *copy = work;
    copy->next = NULL;
    pthread_mutex_lock(&lock);
    if (work.event) work.event->is_done = 0;
    *last = copy;
    last = &copy->next;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return 0;
}

int cuInit(unsigned flags) {
    mode = getenv("FAKE_CUDA");
    if (is("no_device")) return 100;
    if (is("mismatch")) return 803;
    if (is("garbage")) return 987654321;
    // A driver is started once, however often it is asked to.
    static int is_started;
    pthread_t thread;
    if (is_started) return 0;
    is_started = 1;
    return pthread_create(&thread, NULL, worker, NULL);
}
int cuDriverGetVersion(int *version) { *version = is("old") ? 9020 : 12040; return 0; }
int cuGetErrorName(int code, const char **name) {
    *name = code == 100 ? "CUDA_ERROR_NO_DEVICE" : code == 719 ? "CUDA_ERROR_LAUNCH_FAILED" : NULL;
    return *name ? 0 : 1;
}
int cuDeviceGetCount(int *count) { *count = 2; return 0; }
int cuDeviceGet(int *device, int number) { *device = number; return 0; }
int cuDeviceGetName(char *name, int length, int device) {
    snprintf(name, length, "fake GPU");
    return 0;
}
int cuDeviceGetPCIBusId(char *text, int length, int device) {
    snprintf(text, length, "0000:0%d:00.0", device + 1);
    return 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
    *context = (void *)(size_t)(device + 1);
    return 0;
}
int cuDevicePrimaryCtxRelease_v2(int device) { return 0; }
int cuCtxSetCurrent(void *context) { current = (int)(size_t)context - 1; return 0; }
int cuMemGetInfo_v2(size_t *available, size_t *total) {
    *total = TOTAL_BYTES;
    *available = is("full") ? 1 << 20 : *total;
    return 0;
}
int cuMemAlloc_v2(u64 *address, size_t bytes) {
    if (is("full") || bytes > TOTAL_BYTES) return 2;
    if (memory[current]) misuse("memory is taken once");
    memory[current] = aligned_alloc(4096, bytes);
    memory_bytes[current] = bytes;
    *address = (u64)memory[current];
    return 0;
}
int cuMemFree_v2(u64 address) {
    if ((u64)memory[current] != address) misuse("what is freed was never taken");
    free(memory[current]);
    memory[current] = NULL;
    return 0;
}
int cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
    *address = calloc(1, bytes);
    return 0;
}
int cuMemFreeHost(void *address) { free(address); return 0; }
int cuMemHostRegister_v2(void *start, size_t bytes, unsigned flags) {
    static int registered;
    if (is("unlocked") || (is("few_pages") && ++registered > 3)) return 2;
    return (size_t)start % 4096 || bytes % 4096 ? 1 : 0;
}
int cuMemHostUnregister(void *start) { return 0; }
int cuMemHostGetDevicePointer_v2(u64 *address, void *host, unsigned flags) {
    *address = (u64)host;
    return 0;
}
int cuMemcpyHtoDAsync_v2(u64 to, const void *from, size_t bytes, void *stream) {
    return add((struct work){.kind = COPY, .to = on_device(to, bytes), .from = from, .bytes = bytes});
}
int cuMemcpyDtoHAsync_v2(void *to, u64 from, size_t bytes, void *stream) {
    return add((struct work){.kind = COPY, .to = to, .from = on_device(from, bytes), .bytes = bytes});
}
int cuModuleLoadData(void **module, const void *image) {
    if (!strstr(image, ".visible .entry ringfall_fill(")) misuse("these are not the kernels");
    *module = (void *)1;
    return 0;
}
int cuModuleUnload(void *module) { return 0; }
int cuModuleGetFunction(void **function, void *module, const char *name) {
    *function = strcmp(name, "ringfall_fill") == 0 ? (void *)1 : (void *)2;
    return strcmp(name, "ringfall_fill") && strcmp(name, "ringfall_check") ? 500 : 0;
}
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **parameters, void **extra) {
    struct work work = {.kind = KERNEL, .kernel = (int)(size_t)function};
    if (gx == 0 || bx % 32 || bx > 1024) misuse("%u groups of %u threads", gx, bx);
    for (int word = 0; word < (work.kernel == 1 ? 5 : 8); word++) {
        work.words[word] = *(u64 *)parameters[word];
    }
    on_device(work.words[0], work.words[4] * 4096);
    return add(work);
}
int cuLaunchHostFunc(void *stream, host_function call, void *argument) {
    return add((struct work){.kind = HOST, .call = call, .argument = argument});
}
int cuStreamCreate(void **stream, unsigned flags) { *stream = (void *)1; return 0; }
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
    // One thread does what all streams hold, in the order in which it came.
    return 0;
}
int cuStreamDestroy_v2(void *stream) { return 0; }
int cuStreamSynchronize(void *stream) {
    pthread_mutex_lock(&lock);
    while (first != NULL || is_busy) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return 0;
}
int cuEventCreate(void **event, unsigned flags) {
    *event = calloc(1, sizeof(struct event));
    return 0;
}
int cuEventDestroy_v2(void *event) { free(event); return 0; }
int cuEventRecord(void *event, void *stream) {
    return add((struct work){.kind = EVENT, .event = event});
}
int cuEventQuery(void *event) {
    pthread_mutex_lock(&lock);
    int is_done = ((struct event *)event)->is_done;
    pthread_mutex_unlock(&lock);
    return is_done ? 0 : 600;
}
int cuEventElapsedTime(float *ms, void *begun, void *ended) {
    *ms = (float)(((struct event *)ended)->at_ms - ((struct event *)begun)->at_ms);
    return 0;
}
