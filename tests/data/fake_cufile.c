/* A stand-in for libcufile.so.0 beside the one for libcuda.so.1, whose devices' memory is the
 * host's: what the program calls of it, done with pread and pwrite by a thread of its own. Misuse
 * ends the process with a message.
 *
 * FAKE_CUFILE says what goes wrong: absent (no driver), compat (no kernel module), hang (an I/O never
 * ends), hang_later (one of the run's own never ends), deaf (the driver never opens), short (the first read of each batch brings half), fails
 * (after a while every I/O), refuses (after a while every batch), garbage (reads bring the wrong
 * bytes), unregistered (no memory can be registered), or works.
 */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

typedef struct { int err, cu_err; } status;
typedef struct { int type; union { int fd; void *handle; } handle; const void *fs_ops; } descr;
typedef struct {
    int mode;
    struct { void *base; off_t file_offset, offset; size_t size; } batch;
    void *fh;
    int opcode;
    void *cookie;
} params;
typedef struct { void *cookie; int status; size_t ret; } event;
typedef struct {
    struct { unsigned major, minor; size_t poll, direct; unsigned dstatus, dcontrol; } nvfs;
    unsigned fflags, cache, each, pinned, batch, timeout;
} props;

#define ENTRIES 128
struct batch {
    unsigned entries, submitted, done, told;
    params io[ENTRIES];
    event events[ENTRIES];
    struct batch *next;
};
struct file { int fd; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct batch *first, **last = &first;
static int is_open, ios, batches;
static const status good = {0, 0};

static int is(const char *name) {
    const char *mode = getenv("FAKE_CUFILE");
    return mode != NULL && strcmp(mode, name) == 0;
}
static void misuse(const char *what, ...) {
    va_list arguments;
    va_start(arguments, what);
    fprintf(stderr, "fake libcufile: ");
    vfprintf(stderr, what, arguments);
    fprintf(stderr, "\n");
    abort();
}

static size_t move(params *io, unsigned place) {
    char *memory = (char *)io->batch.base + io->batch.offset;
    size_t size = io->batch.size;
    int fd = ((struct file *)io->fh)->fd;
    if ((size_t)memory % 4096 || size % 4096 || io->batch.file_offset % 4096) misuse("unaligned");
    if (is("fails") && ++ios > 40) return (size_t)-EIO;
    if (io->opcode == 1) {
        ssize_t moved = pwrite(fd, memory, size, io->batch.file_offset);
        return moved < 0 ? (size_t)-errno : (size_t)moved;
    }
    // Not the trial's, of one transfer that is whole.
    if (is("short") && place == 0 && ++ios > 2 && size > 4096) size = size / 2 / 4096 * 4096;
    ssize_t moved = pread(fd, memory, size, io->batch.file_offset);
    if (moved > 0 && is("garbage")) memory[moved / 2] ^= 1;
    return moved < 0 ? (size_t)-errno : (size_t)moved;
}

/* For ever; the file FAKE_CUFILE_HANGS is there from then on. */
static void hang(void) {
    const char *path = getenv("FAKE_CUFILE_HANGS");
    FILE *told = path == NULL ? NULL : fopen(path, "w");
    if (told != NULL) fclose(told);
    for (;;) pause();
}

static void *worker(void *unused) {
    pthread_mutex_lock(&lock);
    for (;;) {
        while (first == NULL) pthread_cond_wait(&changed, &lock);
        struct batch *batch = first;
        first = batch->next;
        if (first == NULL) last = &first;
        for (unsigned place = 0; place < batch->submitted; place++) {
            pthread_mutex_unlock(&lock);
            static int begun;
            if (is("hang") || (is("hang_later") && ++begun > 40)) hang();
            size_t moved = move(&batch->io[place], place);
            pthread_mutex_lock(&lock);
            event *told = &batch->events[batch->done++];
            told->cookie = batch->io[place].cookie;
            told->status = (ssize_t)moved < 0 ? 64 : 16;
            told->ret = moved;
            pthread_cond_broadcast(&changed);
        }
    }
    return unused;
}

status cuFileSetParameterBool(int parameter, bool value) {
    if (is_open) misuse("a switch is set before the driver is opened");
    return is("compat") ? (status){5022, 0} : good;
}
status cuFileGetVersion(int *version) { *version = 1090; return good; }
status cuFileDriverOpen(void) {
    if (is("absent")) return (status){5010, 0};
    if (is("deaf")) pause();
    static int is_started;
    pthread_t thread;
    if (!is_started && pthread_create(&thread, NULL, worker, NULL)) misuse("no thread");
    is_started = is_open = 1;
    return good;
}
status cuFileDriverClose(void) { is_open = 0; return good; }
status cuFileDriverGetProperties(props *told) {
    memset(told, 0, sizeof *told);
    told->nvfs.dstatus = is("compat") ? 1 << 4 : 1 << 11;
    told->batch = ENTRIES;
    return good;
}
status cuFileHandleRegister(void **handle, descr *description) {
    if (!is_open || description->type != 1) misuse("a file of type %d", description->type);
    struct file *file = malloc(sizeof *file);
    file->fd = description->handle.fd;
    *handle = file;
    return good;
}
void cuFileHandleDeregister(void *handle) { free(handle); }
status cuFileBufRegister(const void *base, size_t length, int flags) {
    if (!is_open || (size_t)base % 4096) misuse("memory that can't be registered");
    return is("unregistered") ? (status){5036, 0} : good;
}
status cuFileBufDeregister(const void *base) { return good; }
status cuFileBatchIOSetUp(void **handle, unsigned entries) {
    if (!is_open || entries > ENTRIES) misuse("a batch of %u", entries);
    struct batch *batch = calloc(1, sizeof *batch);
    batch->entries = entries;
    *handle = batch;
    return good;
}
status cuFileBatchIOSubmit(void *handle, unsigned count, params *io, unsigned flags) {
    struct batch *batch = handle;
    pthread_mutex_lock(&lock);
    if (batch->told < batch->submitted) misuse("a batch is used again before it is over");
    if (count == 0 || count > batch->entries) misuse("%u in a batch of %u", count, batch->entries);
    if (is("refuses") && ++batches > 4) {
        batch->submitted = batch->done = batch->told = 0;
        pthread_mutex_unlock(&lock);
        return (status){5030, 0};
    }
    memcpy(batch->io, io, count * sizeof *io);
    batch->submitted = count;
    batch->done = batch->told = 0;
    batch->next = NULL;
    *last = batch;
    last = &batch->next;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return good;
}
status cuFileBatchIOGetStatus(void *handle, unsigned least, unsigned *count, event *events,
                              struct timespec *limit) {
    struct batch *batch = handle;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += limit->tv_sec + (until.tv_nsec + limit->tv_nsec) / 1000000000;
    until.tv_nsec = (until.tv_nsec + limit->tv_nsec) % 1000000000;
    pthread_mutex_lock(&lock);
    while (batch->done - batch->told < least) {
        if (pthread_cond_timedwait(&changed, &lock, &until)) break;
    }
    unsigned told = batch->done - batch->told;
    if (told > *count) told = *count;
    memcpy(events, batch->events + batch->told, told * sizeof *events);
    batch->told += told;
    *count = told;
    pthread_mutex_unlock(&lock);
    return good;
}
status cuFileBatchIOCancel(void *handle) { return good; }
void cuFileBatchIODestroy(void *handle) { free(handle); }
