/* A stand-in for NVIDIA's libnvidia-ml.so.1, for tests on machines without a card:
     cc -shared -fPIC -Wl,-soname,libnvidia-ml.so.1 -o D/libnvidia-ml.so.1 nvml.c
     LD_LIBRARY_PATH=D FAKE_NVML=FILE program
   The file is read anew at every call. One line per card:
     name;uuid;gpu %;memory %;used MiB;total MiB;power mW;temperature C;pid:MiB,pid:MiB
   A line `slice;uuid;used MiB;total MiB;pid:MiB` is a MIG slice of the card above it. A line
   that is taken away is a lost card. FAKE_NVML_ERROR=9 makes nvmlInit fail as without a
   driver. FAKE_NVML_HANG=PATH: while PATH exists, each reading opens and reads it first; a
   FIFO hangs. With -DOLD the calls are those of a driver before 510, and power
   is missing; with -DANCIENT the processes, too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <fcntl.h>
#define API __attribute__((visibility("default")))
#define CARDS 16
#define SLICES 8
typedef struct {
  char name[96], uuid[96], procs[512];
  unsigned busy, memory_busy, power, temperature;
  unsigned long long used, total;
} Card;
static Card cards[CARDS], slices[CARDS][SLICES];
static unsigned slice_count[CARDS];

static unsigned load(void) {
  const char *path = getenv("FAKE_NVML"), *hang = getenv("FAKE_NVML_HANG");
  char line[1024], byte;
  unsigned count = 0;
  int held = hang ? open(hang, O_RDONLY) : -1;
  if (held >= 0) { while (read(held, &byte, 1) > 0) {} close(held); }
  memset(cards, 0, sizeof cards);
  memset(slices, 0, sizeof slices);
  memset(slice_count, 0, sizeof slice_count);
  FILE *file = path ? fopen(path, "r") : NULL;
  if (!file) return 0;
  while (count < CARDS && fgets(line, sizeof line, file)) {
    Card one;
    memset(&one, 0, sizeof one);
    if (count && !strncmp(line, "slice;", 6)) {
      unsigned *n = &slice_count[count - 1];
      if (*n < SLICES && sscanf(line, "slice;%95[^;];%llu;%llu;%511[^\n]", one.uuid, &one.used, &one.total, one.procs) >= 3) {
        strcpy(one.name, "MIG slice");
        slices[count - 1][(*n)++] = one;
      }
    } else if (sscanf(line, "%95[^;];%95[^;];%u;%u;%llu;%llu;%u;%u;%511[^\n]", one.name, one.uuid, &one.busy,
                      &one.memory_busy, &one.used, &one.total, &one.power, &one.temperature, one.procs) >= 8) {
      cards[count++] = one;
    }
  }
  fclose(file);
  return count;
}

/* A handle is 1 + the card's number, and for a slice 256 times (1 + its number) more. */
static Card *card(void *handle) {
  size_t at = (size_t)handle, slice = at >> 8;
  unsigned i = (unsigned)(at & 255) - 1;
  if (i >= load()) return NULL;
  if (!slice) return cards + i;
  return slice <= slice_count[i] ? &slices[i][slice - 1] : NULL;
}
#define CARD Card *g = card(h); if (!g) return 15 /* GPU_IS_LOST */

API int nvmlInit_v2(void) { const char *error = getenv("FAKE_NVML_ERROR"); return error ? atoi(error) : 0; }
API int nvmlShutdown(void) { return 0; }
API int nvmlSystemGetDriverVersion(char *s, unsigned n) { snprintf(s, n, "570.00"); return 0; }
API int nvmlDeviceGetCount_v2(unsigned *n) { *n = load(); return 0; }
API int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) { if (i >= load()) return 2; *h = (void *)(size_t)(i + 1); return 0; }
API int nvmlDeviceGetName(void *h, char *s, unsigned n) { CARD; snprintf(s, n, "%s", g->name); return 0; }
API int nvmlDeviceGetUUID(void *h, char *s, unsigned n) { CARD; snprintf(s, n, "%s", g->uuid); return 0; }
API int nvmlDeviceGetTemperature(void *h, int sensor, unsigned *t) { CARD; (void)sensor; *t = g->temperature; return 0; }
API int nvmlDeviceGetMigMode(void *h, unsigned *current, unsigned *pending) {
  unsigned i = (unsigned)((size_t)h & 255) - 1;
  CARD; *current = *pending = slice_count[i] > 0; return 0; }
API int nvmlDeviceGetMaxMigDeviceCount(void *h, unsigned *n) { CARD; *n = 7; return 0; }
API int nvmlDeviceGetMigDeviceHandleByIndex(void *h, unsigned s, void **out) {
  unsigned i = (unsigned)((size_t)h & 255) - 1;
  CARD; if (s >= slice_count[i]) return 6 /* NOT_FOUND */;
  *out = (void *)((size_t)h | (size_t)(s + 1) << 8); return 0; }
API int nvmlDeviceGetUtilizationRates(void *h, unsigned *u) { CARD; u[0] = g->busy; u[1] = g->memory_busy; return 0; }
#ifdef OLD
#define PROCESSES nvmlDeviceGetComputeRunningProcesses_v2
#else
#define PROCESSES nvmlDeviceGetComputeRunningProcesses_v3
API int nvmlDeviceGetPowerUsage(void *h, unsigned *mw) { CARD; *mw = g->power; return 0; }
API int nvmlDeviceGetMemoryInfo_v2(void *h, void *p) {
  struct { unsigned version; unsigned long long total, reserved, free, used; } *m = p;
  CARD; m->total = g->total << 20; m->reserved = 0; m->used = g->used << 20; m->free = m->total - m->used; return 0; }
#endif
#ifndef ANCIENT
API int PROCESSES(void *h, unsigned *n, void *out) {
  struct { unsigned pid; unsigned long long used; unsigned gi, ci; } *o = out;
  unsigned room = *n, i = 0; char *s, *save; CARD;
  for (s = strtok_r(g->procs, ",", &save); s; s = strtok_r(NULL, ",", &save), i++)
    if (o && i < room) {
      unsigned pid = 0; unsigned long long mib = 0;
      sscanf(s, "%u:%llu", &pid, &mib);
      o[i].pid = pid; o[i].used = mib << 20; o[i].gi = o[i].ci = ~0u;
    }
  *n = i;
  return i > room ? 7 /* INSUFFICIENT_SIZE */ : 0; }
#endif
