/*
 * What efa-bench measures of an MPI. `efa-bench mpi` compiles it with the mpicc of the machine and
 * starts it with mpirun.
 *
 * Rank 0 reads one measurement per line from standard input,
 *
 *   TEST BYTES DEPTH ITERATIONS DURATION_MS WARMUP_MS VALIDATE
 *
 * (ITERATIONS 0: as many as fit into DURATION_MS) and answers each with one line of JSON. It ends
 * with the line "end", or with its input: Open MPI 5 does not pass that end on. Every message and every result is checked with VALIDATE 1; of collective
 * operations the first and the last always are, of the kernels all.
 */
#include "mpi_bench.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LINE_BYTES = 256 };

static const struct {
    const char *test;
    void (*measure)(const struct measurement *m);
} tests[] = {
    { "latency", measure_latency },
    { "bandwidth", measure_bandwidth },
    { "bidirectional", measure_bidirectional },
    { "allgather", measure_collective },
    { "allreduce", measure_collective },
    { "barrier", measure_collective },
    { "bcast", measure_collective },
    { "iallgather", measure_overlap },
    { "iallreduce", measure_overlap },
    { "ibcast", measure_overlap },
    { "nas-is", measure_integer_sort },
    { "nas-ft", measure_fourier },
};

int rank, ranks;
struct checks checks;

int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void fail(const char *what, long long value)
{
    fprintf(stderr, "efa-bench mpi: rank %d: %s %lld\n", rank, what, value);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

void *allocate(int64_t bytes)
{
    /* Pages of their own from the start: the first touch is not to be measured. */
    void *memory = malloc(bytes > 0 ? (size_t)bytes : 1);
    if (!memory)
        fail("no memory for this many bytes:", bytes);
    memset(memory, 0, bytes > 0 ? (size_t)bytes : 1);
    return memory;
}

/* Contents: a sequence of its own for each sender and message. */

void fill(uint8_t *data, int64_t bytes, int from, int64_t message)
{
    uint32_t seed = 2654435761u * ((uint32_t)from * 1009u + (uint32_t)message + 1u);
    for (int64_t i = 0; i < bytes; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (uint8_t)(seed >> 24);
    }
}

void check(const uint8_t *data, int64_t bytes, int from, int64_t message)
{
    uint32_t seed = 2654435761u * ((uint32_t)from * 1009u + (uint32_t)message + 1u);
    int64_t wrong = 0;
    for (int64_t i = 0; i < bytes; i++) {
        seed = seed * 1664525u + 1013904223u;
        wrong += data[i] != (uint8_t)(seed >> 24);
    }
    checks.validated++;
    checks.wrong += wrong != 0;
}

/* The next line of rank 0's input, at all ranks; 0 at its end. */
static int next(struct measurement *m)
{
    int is_there = 0;
    if (rank == 0) {
        char line[LINE_BYTES];
        memset(m, 0, sizeof *m);
        is_there = fgets(line, sizeof line, stdin) != NULL && strcmp(line, "end\n") != 0;
        int fields = !is_there ? 7 : sscanf(line, "%15s %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64
            " %" SCNd64 " %" SCNd64, m->test, &m->bytes, &m->depth, &m->iterations,
            &m->duration_ms, &m->warmup_ms, &m->validate);
        if (fields != 7 || m->bytes < 0 || m->bytes > INT32_MAX || (is_there && m->depth < 1))
            fail("a line that is no measurement; fields understood:", fields);
    }
    MPI_Bcast(&is_there, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Bcast(m, sizeof *m, MPI_BYTE, 0, MPI_COMM_WORLD);
    return is_there;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks < 2)
        fail("at least 2 ranks are needed, there are", ranks);
    if (rank == 0) {
        printf("{\"ranks\":%d}\n", ranks);
        fflush(stdout);
    }
    struct measurement m;
    while (next(&m)) {
        size_t i = 0, count = sizeof tests / sizeof *tests;
        while (i < count && strcmp(m.test, tests[i].test))
            i++;
        if (i == count)
            fail("a test that is not known; there are", (long long)count);
        checks = (struct checks){ 0, 0 };
        tests[i].measure(&m);
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
