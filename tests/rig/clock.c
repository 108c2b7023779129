/* Shifts the wall clock of every program that loads it by the seconds (a 64-bit number) in CLOCK_FILE. The
 * clocks since the boot stay as they are. Programs that ask the kernel without the C library (our agents do)
 * keep the true time: machines then disagree about the time, too. */
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset_s;

__attribute__((constructor)) static void map_offset(void) {
  int file = open(CLOCK_FILE, O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return;
  void *at = mmap(0, sizeof *offset_s, PROT_READ, MAP_SHARED, file, 0);
  if (at != MAP_FAILED)
    offset_s = at;
  close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  long failed = syscall(SYS_clock_gettime, clock, now);
  if (!failed && offset_s && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    now->tv_sec += *offset_s;
  return (int)failed;
}

int gettimeofday(struct timeval *now, void *zone) {
  struct timespec at;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &at))
    return -1;
  now->tv_sec = at.tv_sec;
  now->tv_usec = at.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *to) {
  struct timespec at = {0};
  clock_gettime(CLOCK_REALTIME, &at);
  if (to)
    *to = at.tv_sec;
  return at.tv_sec;
}
