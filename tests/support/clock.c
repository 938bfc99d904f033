/* LD_PRELOAD: a process whose clock of day is CLOCK_SHIFT seconds ahead (or behind, when negative). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static int (*real_clock)(clockid_t, struct timespec *);
static time_t shift;

__attribute__((constructor)) static void begin(void) {
    const char *seconds = getenv("CLOCK_SHIFT");
    real_clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    shift = seconds == NULL ? 0 : atol(seconds);
}

int clock_gettime(clockid_t which, struct timespec *now) {
    if (real_clock == NULL) begin();
    int failed = real_clock(which, now);
    if (!failed && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) now->tv_sec += shift;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec found;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &found)) return -1;
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec found;
    if (clock_gettime(CLOCK_REALTIME, &found)) return -1;
    if (now != NULL) *now = found.tv_sec;
    return found.tv_sec;
}
