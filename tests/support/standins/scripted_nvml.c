/* A stand-in for NVML, for tests: the entry points that the recorder uses, answered from a script. Nothing that was obtained
 * with it is a measurement of a GPU.
 *
 * The script is the text file that SCRIPTED_NVML names; it may grow while it is read. Its lines:
 *
 *   device NAME PERIOD_US TOTAL_BYTES FLAGS   FLAGS: letters of what the device tells: s = samples, r = rates,
 *                                             a = utilisation by process (accounting), l = processes with their memory,
 *                                             0 to 9 = MIG instances (device 100 * (place + 1) + instance)
 *   TIME_US DEVICE PID busy PERCENT           from then on (microseconds, CLOCK_REALTIME)
 *   TIME_US DEVICE PID memory BYTES
 *   TIME_US DEVICE 0 fault CODE               every call about the device returns CODE; 0 = it answers again;
 *                                             below 0 = answers after so many milliseconds
 *
 * As the driver does, it averages over periods of its own: a sample every PERIOD_US, the present rate over the last one.
 * A sample is there a tenth of a second after its period, so that what a busy machine writes late into the script is in
 * it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { OK = 0, UNSUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, NO_DRIVER = 9 };
enum { MOST_DEVICES = 8, MOST_EVENTS = 100000, BUFFER = 120, LATE_US = 100000 };

typedef unsigned long long u64;

struct device {
    char name[64], flags[16];
    u64 period_us, total_bytes;
};

struct event {
    u64 time_us;
    long device, pid;
    char what[16];
    double value;
};

struct sample {
    u64 time_us;
    union {
        double d;
        unsigned u;
        u64 whole;
    } value;
};

struct process_sample {
    unsigned pid;
    u64 time_us;
    unsigned sm, memory, encoder, decoder;
};

struct process {
    unsigned pid;
    u64 bytes;
    unsigned gpu_instance, compute_instance;
};

static struct device devices[MOST_DEVICES];
static struct event events[MOST_EVENTS];
static int device_count, event_count;
static off_t read_size = -1;
/* Handles are places, and 100 * (place + 1) + instance for an instance, plus one: none is NULL. */
static long number_of(void *handle) { return (long)handle - 1; }
static struct device *device_of(long number) { return &devices[number < 100 ? number : number / 100 - 1]; }

static u64 now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (u64)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int read_line(const char *line) {
    struct device device = {0};
    struct event event = {0};
    if (sscanf(line, "device %63s %llu %llu %15s", device.name, &device.period_us, &device.total_bytes, device.flags) >= 3)
        devices[device_count++] = device;
    else if (sscanf(line, "%llu %ld %ld %15s %lf", &event.time_us, &event.device, &event.pid, event.what, &event.value) == 5)
        events[event_count++] = event;
    return device_count < MOST_DEVICES && event_count < MOST_EVENTS;
}

/* Reads the script again where it has grown. */
static int read_script(void) {
    const char *path = getenv("SCRIPTED_NVML");
    struct stat found;
    char line[256];
    if (path == NULL || stat(path, &found) != 0)
        return NO_DRIVER;
    if (found.st_size == read_size)
        return OK;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return NO_DRIVER;
    device_count = event_count = 0;
    while (fgets(line, sizeof line, file) != NULL && read_line(line))
        continue;
    fclose(file);
    read_size = found.st_size;
    return device_count ? OK : NO_DRIVER;
}

/* What the device returns at present to any call. */
static int fault(long number) {
    u64 now = now_us();
    double code = 0;
    int status = read_script();
    for (int i = 0; i < event_count; i++)
        if (events[i].device == number && events[i].time_us <= now && strcmp(events[i].what, "fault") == 0)
            code = events[i].value;
    if (code < 0)
        usleep((useconds_t)(-code * 1000));
    return status != OK ? status : code > 0 ? (int)code : OK;
}

static int can(long number, char flag) { return number < 100 && strchr(device_of(number)->flags, flag) != NULL; }

/* The value of `what` that process `pid` has on the device at a moment. */
static double value_at(long number, long pid, const char *what, u64 at_us) {
    double value = 0;
    for (int i = 0; i < event_count; i++)
        if (events[i].device == number && events[i].pid == pid && events[i].time_us <= at_us &&
            strcmp(events[i].what, what) == 0)
            value = events[i].value;
    return value;
}

/* The processes that the script has on the device: how many, and their pids. */
static int pids_of(long number, long *pids) {
    int count = 0;
    for (int i = 0; i < event_count; i++) {
        int known = events[i].pid == 0 || events[i].device != number;
        for (int j = 0; j < count; j++)
            known |= pids[j] == events[i].pid;
        if (!known && count < BUFFER)
            pids[count++] = events[i].pid;
    }
    return count;
}

/* Percent of a span of time in which `pid` (0 = anybody) kept the device busy. */
static double busy(long number, long pid, u64 from_us, u64 to_us) {
    long all[BUFFER] = {pid};
    int count = pid ? 1 : pids_of(number, all);
    double sum = 0;
    for (u64 at = from_us, next; at < to_us; at = next) {
        double percent = 0;
        next = to_us;
        for (int i = 0; i < event_count; i++)
            if (events[i].device == number && events[i].time_us > at && events[i].time_us < next)
                next = events[i].time_us;
        for (int i = 0; i < count; i++)
            percent += value_at(number, all[i], "busy", at);
        sum += (percent > 100 ? 100 : percent) * (double)(next - at);
    }
    return sum / (double)(to_us - from_us);
}

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    return read_script();
}

int nvmlShutdown(void) { return OK; }

const char *nvmlErrorString(int code) {
    (void)code;
    return "scripted";
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    int status = read_script();
    *count = (unsigned)device_count;
    return status;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    *handle = (void *)((long)index + 1);
    return fault(index);
}

int nvmlDeviceGetName(void *handle, char *name, unsigned size) {
    snprintf(name, size, "%s", device_of(number_of(handle))->name);
    return fault(number_of(handle));
}

int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned size) {
    snprintf(uuid, size, "GPU-scripted-%ld", number_of(handle));
    return fault(number_of(handle));
}

static int instances(long number) {
    const char *digit = number < 100 ? strpbrk(devices[number].flags, "123456789") : NULL;
    return digit ? *digit - '0' : 0;
}

int nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending) {
    *current = *pending = instances(number_of(handle)) > 0;
    return fault(number_of(handle));
}

int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *count) {
    *count = (unsigned)instances(number_of(handle));
    return fault(number_of(handle));
}

int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned index, void **instance) {
    *instance = (void *)(100 * (number_of(handle) + 1) + (long)index + 1);
    return fault(number_of(handle));
}

int nvmlDeviceGetMemoryInfo(void *handle, u64 *memory) {
    long number = number_of(handle), pids[BUFFER];
    int status = fault(number), count = pids_of(number, pids);
    memory[0] = device_of(number)->total_bytes;
    memory[2] = 0;
    for (int i = 0; i < count; i++)
        memory[2] += (u64)value_at(number, pids[i], "memory", now_us());
    memory[1] = memory[0] - memory[2];
    return status;
}

int nvmlDeviceGetSamples(void *handle, int type, u64 seen_us, unsigned *value_type, unsigned *count, struct sample *samples) {
    long number = number_of(handle);
    int status = fault(number);
    if (status != OK || !can(number, 's') || type != 1)
        return status != OK ? status : UNSUPPORTED;
    u64 period = device_of(number)->period_us, last = (now_us() - LATE_US) / period;
    u64 first = seen_us / period + 1 > last + 1 - BUFFER ? seen_us / period + 1 : last + 1 - BUFFER;
    *value_type = 1;
    if (first > last)
        return NOT_FOUND;
    if (samples == NULL) {
        *count = BUFFER;
        return OK;
    }
    for (*count = 0; first <= last; first++, samples++, ++*count) {
        samples->time_us = first * period;
        samples->value.u = (unsigned)(busy(number, 0, (first - 1) * period, first * period) + 0.5);
    }
    return OK;
}

int nvmlDeviceGetUtilizationRates(void *handle, unsigned *rates) {
    long number = number_of(handle);
    int status = fault(number);
    if (status != OK || !can(number, 'r'))
        return status != OK ? status : UNSUPPORTED;
    u64 period = device_of(number)->period_us, last = now_us() / period;
    rates[0] = (unsigned)(busy(number, 0, (last - 1) * period, last * period) + 0.5);
    rates[1] = 0;
    return OK;
}

/* The average over the samples after `seen_us`, up to the last in which the process was busy. */
static int average(long number, long pid, u64 seen_us, struct process_sample *found) {
    u64 period = device_of(number)->period_us, last = (now_us() - LATE_US) / period, first = seen_us / period + 1;
    if (first + BUFFER < last)
        first = last - BUFFER;
    while (last >= first && busy(number, pid, (last - 1) * period, last * period) < 0.5)
        last--;
    if (last < first)
        return 0;
    *found = (struct process_sample){.pid = (unsigned)pid, .time_us = last * period};
    found->sm = (unsigned)(busy(number, pid, (first - 1) * period, last * period) + 0.5);
    return 1;
}

int nvmlDeviceGetProcessUtilization(void *handle, struct process_sample *samples, unsigned *count, u64 seen_us) {
    long number = number_of(handle), pids[BUFFER];
    int status = fault(number), found = 0;
    if (status != OK || !can(number, 'a'))
        return status != OK ? status : UNSUPPORTED;
    int users = pids_of(number, pids);
    struct process_sample made[BUFFER + 1];
    for (int i = 0; i < users; i++)
        found += average(number, pids[i], seen_us, &made[found]);
    if (found == 0)
        return NOT_FOUND;
    made[found] = (struct process_sample){.pid = (unsigned)pids[0], .time_us = seen_us - 1, .sm = 4000000000u}; /* as drivers do */
    found++;
    int fits = samples != NULL && *count >= (unsigned)found;
    *count = (unsigned)found;
    if (fits)
        memcpy(samples, made, sizeof made[0] * (size_t)found);
    return fits ? OK : TOO_SMALL;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, struct process *processes) {
    long number = number_of(handle), pids[BUFFER];
    int status = fault(number), found = 0, users = pids_of(number, pids);
    if (status != OK || strchr(device_of(number)->flags, 'l') == NULL)
        return status != OK ? status : UNSUPPORTED;
    for (int i = 0; i < users; i++) {
        u64 bytes = (u64)value_at(number, pids[i], "memory", now_us());
        if (bytes != 0 && processes != NULL && (unsigned)found < *count)
            processes[found] = (struct process){.pid = (unsigned)pids[i], .bytes = bytes};
        found += bytes != 0;
    }
    int fits = processes != NULL && *count >= (unsigned)found;
    *count = (unsigned)found;
    return found == 0 || fits ? OK : TOO_SMALL;
}
