/* The physical limit to measure against, and the jobs that are timed.
 *
 *   floor loop N PARALLEL [DIR] N times fork, new session, exec /bin/true,
 *                               PARALLEL at a time; with DIR each makes as many inodes
 *                               there first as a run has; nothing else
 *   floor stamp FILE MS         writes the monotonic clock (ns) first thing,
 *                               waits MS, writes it again last thing
 *   floor lines N MS            prints the monotonic clock N times, MS apart
 *   floor clock N MS            the same as a metric: ns=TIME
 *   floor metrics RATE SECONDS  prints RATE points a second
 *   floor flood LINES FILE      prints LINES lines of ten points as fast as it can,
 *                               writes the nanoseconds that it took into FILE
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void pause_ms(long ms) {
    struct timespec t = {ms / 1000, (ms % 1000) * 1000000L};
    nanosleep(&t, NULL);
}

static void start(void) {
    pid_t pid = fork();
    if (pid < 0) {
        perror("fork");
        exit(1);
    }
    if (pid > 0)
        return;
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(null, 1);
    dup2(null, 2);
    setsid();
    execl("/bin/true", "true", (char *)NULL);
    _exit(127);
}

/* Five folders and six files with a second name, as of a run with one start. */
static void inodes(const char *folder, long number) {
    static const char *const folders[] = {"", "/1", "/1/control", "/1/work", "/1/1"};
    static const char *const files[] = {"/1/spec",   "/1/params.json", "/1/work/neronet.yaml",
                                        "/1/1/claim", "/1/1/shim.seg",  "/1/1/log"};
    char path[4096], spare[4096];
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "%s/%ld%s", folder, number, folders[i]);
        mkdir(path, 0700);
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%ld%s", folder, number, files[i]);
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
        if (fd >= 0 && write(fd, path, 200) == 200)
            close(fd);
    }
    snprintf(path, sizeof path, "%s/%ld/1/spec", folder, number);
    snprintf(spare, sizeof spare, "%s/%ld/1/spare", folder, number);
    if (link(path, spare) < 0)
        perror(spare);
}

static int loop(long count, long parallel, const char *folder) {
    long started = 0, running = 0;
    while (started < count || running > 0) {
        while (started < count && running < parallel) {
            if (folder)
                inodes(folder, started);
            start();
            started++;
            running++;
        }
        if (wait(NULL) < 0)
            return 1;
        running--;
    }
    return 0;
}

static int stamp(const char *path, long ms) {
    long long first = now();
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0)
        return 1;
    dprintf(fd, "%lld\n", first);
    pause_ms(ms);
    dprintf(fd, "%lld\n", now());
    return 0;
}

static int metrics(long rate, long seconds) {
    long long began = now();
    for (long i = 0; i < rate * seconds; i++) {
        long long due = began + i * (1000000000LL / rate);
        if (due > now())
            pause_ms((due - now()) / 1000000 + 1);
        printf("step=%ld loss=%ld.%03ld\n", i, i % 7, i % 1000);
        if (i % 10 == 9 || rate < 10)
            fflush(stdout);
    }
    return 0;
}

static int flood(long lines, const char *path) {
    long long began = now();
    for (long i = 0; i < lines; i++)
        printf("step=%ld a=%ld.5 b=1.25 c=0.125 d=2e-3 e=%ld f=0.5 g=17 h=3.5 i=4.5\n", i,
               i % 9, i % 5);
    fflush(stdout);
    long long took = now() - began;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0)
        return 1;
    dprintf(fd, "%lld\n", took);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 4 && !strcmp(argv[1], "metrics"))
        return metrics(atol(argv[2]), atol(argv[3]));
    if (argc == 4 && !strcmp(argv[1], "flood"))
        return flood(atol(argv[2]), argv[3]);
    if ((argc == 4 || argc == 5) && !strcmp(argv[1], "loop"))
        return loop(atol(argv[2]), atol(argv[3]), argv[4]);
    if (argc == 4 && !strcmp(argv[1], "stamp"))
        return stamp(argv[2], atol(argv[3]));
    if (argc == 4 && (!strcmp(argv[1], "lines") || !strcmp(argv[1], "clock"))) {
        for (long i = atol(argv[2]); i > 0; i--) {
            printf(!strcmp(argv[1], "clock") ? "ns=%lld\n" : "%lld\n", now());
            fflush(stdout);
            pause_ms(atol(argv[3]));
        }
        return 0;
    }
    fprintf(stderr, "usage: floor loop N PARALLEL [DIR] | stamp FILE MS | lines|clock N MS | metrics RATE SECONDS | flood LINES FILE\n");
    return 2;
}
