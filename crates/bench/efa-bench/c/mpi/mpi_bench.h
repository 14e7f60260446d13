/* What the parts of the MPI program of efa-bench share. */
#ifndef EFA_BENCH_MPI_H
#define EFA_BENCH_MPI_H

#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <stdint.h>

enum { TAG = 7, TAG_LAST = 8 };

/* A line of rank 0's input. */
struct measurement {
    char test[16];
    int64_t bytes;
    int64_t depth;
    int64_t iterations;
    int64_t duration_ms;
    int64_t warmup_ms;
    int64_t validate;
};

/* What every rank found. */
struct checks {
    int64_t validated;
    int64_t wrong;
};

extern int rank, ranks;
extern struct checks checks;

/* mpi_bench.c: the ranks, their memory, what messages hold. */
int64_t now_ns(void);
void fail(const char *what, long long value);
void *allocate(int64_t bytes);
void fill(uint8_t *data, int64_t bytes, int from, int64_t message);
void check(const uint8_t *data, int64_t bytes, int from, int64_t message);

/* measure.c: how many operations there are, and what is said of them. */

/* Does `count` operations; the time of each goes to `times_ns`. */
typedef void (*repeat)(void *state, int64_t count, int64_t *times_ns);

/* Warms up and measures; answers how many operations were timed, all on this rank. */
int64_t measure(const struct measurement *m, repeat body, void *state);
/* The times of the last measurement. */
int64_t *samples_ns(void);
/* Rank 0 prints them: those of the slowest rank each time, or those of the ranks below `from`. */
void print_slowest(int64_t count);
/* The same of operations with `compute_ns` of computing in between that alone last `alone_ns`. */
void print_overlapped(int64_t count, double alone_ns, double compute_ns);
double mean_of_slowest_ns(int64_t count); /* at all ranks */
void print_times_of(int from, int64_t count);
/* Rank 0 prints a stream: `messages` in `seconds`, each at the receiving ranks, elsewhere 0. */
void print_stream(double messages, double seconds);

/* What is measured. */
void measure_latency(const struct measurement *m);
void measure_bandwidth(const struct measurement *m);
void measure_bidirectional(const struct measurement *m);
void measure_collective(const struct measurement *m);
void measure_overlap(const struct measurement *m);
void measure_integer_sort(const struct measurement *m);
void measure_fourier(const struct measurement *m);

#endif
