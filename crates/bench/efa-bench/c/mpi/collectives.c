/*
 * Collective operations: barriers between them, each lasts as long as on its slowest rank.
 *
 * Those whose name begins with "i" do not block. They are timed alone first, and then with so much
 * computing between start and wait as they took: what of them goes on meanwhile is overlap.
 */
#include "mpi_bench.h"
#include <stdlib.h>
#include <string.h>

enum {
    CALIBRATION_STEPS = 4000000, /* of computing, to find out how long one takes */
    CALIBRATIONS = 5
};

struct collective {
    const char *test; /* without the "i" */
    int is_nonblocking;
    int64_t compute_steps; /* between start and wait */
    uint8_t *mine;
    uint8_t *all;
    int64_t bytes;
    int64_t validate;
    int64_t sequence;
};

static void prepare(struct collective *c)
{
    if (!strcmp(c->test, "bcast")) {
        if (rank == 0)
            fill(c->all, c->bytes, 0, c->sequence);
        else
            memset(c->all, 0, (size_t)c->bytes);
    } else if (!strcmp(c->test, "allgather")) {
        fill(c->mine, c->bytes, rank, c->sequence);
    } else if (!strcmp(c->test, "allreduce")) {
        uint32_t *values = (uint32_t *)c->mine;
        for (int64_t i = 0; i < c->bytes / 4; i++)
            values[i] = (uint32_t)(rank + 1) * (uint32_t)(i + c->sequence);
    }
}

static void verify(struct collective *c)
{
    if (!strcmp(c->test, "bcast")) {
        check(c->all, c->bytes, 0, c->sequence);
    } else if (!strcmp(c->test, "allgather")) {
        for (int from = 0; from < ranks; from++)
            check(c->all + from * c->bytes, c->bytes, from, c->sequence);
    } else if (!strcmp(c->test, "allreduce")) {
        const uint32_t *sums = (const uint32_t *)c->all;
        uint32_t of_ranks = (uint32_t)ranks * (uint32_t)(ranks + 1) / 2;
        int64_t wrong = 0;
        for (int64_t i = 0; i < c->bytes / 4; i++)
            wrong += sums[i] != of_ranks * (uint32_t)(i + c->sequence);
        checks.validated++;
        checks.wrong += wrong != 0;
    }
}

static void operate(struct collective *c)
{
    int count = (int)c->bytes;
    if (!strcmp(c->test, "barrier"))
        MPI_Barrier(MPI_COMM_WORLD);
    else if (!strcmp(c->test, "bcast"))
        MPI_Bcast(c->all, count, MPI_BYTE, 0, MPI_COMM_WORLD);
    else if (!strcmp(c->test, "allgather"))
        MPI_Allgather(c->mine, count, MPI_BYTE, c->all, count, MPI_BYTE, MPI_COMM_WORLD);
    else
        MPI_Allreduce(c->mine, c->all, count / 4, MPI_UINT32_T, MPI_SUM, MPI_COMM_WORLD);
}

static MPI_Request start(struct collective *c)
{
    int count = (int)c->bytes;
    MPI_Request request;
    if (!strcmp(c->test, "bcast"))
        MPI_Ibcast(c->all, count, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
    else if (!strcmp(c->test, "allgather"))
        MPI_Iallgather(c->mine, count, MPI_BYTE, c->all, count, MPI_BYTE, MPI_COMM_WORLD, &request);
    else
        MPI_Iallreduce(c->mine, c->all, count / 4, MPI_UINT32_T, MPI_SUM, MPI_COMM_WORLD, &request);
    return request;
}

/* Arithmetic on nothing but registers; its result is kept so that nobody leaves it out. */
static void compute(int64_t steps)
{
    static volatile uint64_t kept;
    uint64_t value = kept;
    for (int64_t i = 0; i < steps; i++)
        value = value * 6364136223846793005u + 1442695040888963407u;
    kept = value;
}

/* The best of some tries: what others took away does not count. */
static double step_ns(void)
{
    int64_t best = INT64_MAX;
    for (int i = 0; i < CALIBRATIONS; i++) {
        int64_t begun = now_ns();
        compute(CALIBRATION_STEPS);
        int64_t took = now_ns() - begun;
        best = took < best ? took : best;
    }
    return (double)best / CALIBRATION_STEPS;
}

static void operate_and_compute(struct collective *c)
{
    MPI_Request request = start(c);
    compute(c->compute_steps);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void operations(void *state, int64_t count, int64_t *times_ns)
{
    struct collective *c = state;
    for (int64_t i = 0; i < count; i++, c->sequence++) {
        int is_checked = c->validate || i == 0 || i == count - 1;
        if (is_checked)
            prepare(c);
        MPI_Barrier(MPI_COMM_WORLD);
        int64_t begun = now_ns();
        if (c->is_nonblocking)
            operate_and_compute(c);
        else
            operate(c);
        times_ns[i] = now_ns() - begun;
        if (is_checked)
            verify(c);
    }
}

void measure_collective(const struct measurement *m)
{
    struct collective c = { m->test, 0, 0, allocate(m->bytes), allocate(m->bytes * ranks), m->bytes,
                m->validate, 0 };
    print_slowest(measure(m, operations, &c));
    free(c.mine);
    free(c.all);
}

void measure_overlap(const struct measurement *m)
{
    struct collective c = { m->test + 1, 1, 0, allocate(m->bytes), allocate(m->bytes * ranks),
                m->bytes, m->validate, 0 };
    double step = step_ns(), alone_ns = mean_of_slowest_ns(measure(m, operations, &c));
    c.compute_steps = (int64_t)(alone_ns / step);
    int64_t count = measure(m, operations, &c);
    print_overlapped(count, alone_ns, (double)c.compute_steps * step);
    free(c.mine);
    free(c.all);
}
