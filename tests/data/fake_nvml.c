/* A stand-in for libnvidia-ml.so.1: a GPU of which 3 GiB are in use, 2 of them by process 1 and 1 by
 * whoever asks. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long long u64;
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *address, void **device) {
    *device = (void *)1;
    return strncmp(address, "0000:0", 6) == 0 ? 0 : 6;
}
int nvmlDeviceGetMemoryInfo(void *device, u64 *sizes) {
    sizes[0] = 8ull << 30;
    sizes[1] = 5ull << 30;
    sizes[2] = 3ull << 30;
    return 0;
}
struct process { unsigned pid; u64 bytes; unsigned gpu, compute; };
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *found) {
    found[0] = (struct process){getpid(), 1ull << 30, 0, 0};
    found[1] = (struct process){1, 2ull << 30, 0, 0};
    *count = 2;
    return 0;
}
