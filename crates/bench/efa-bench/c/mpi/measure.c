/* How many operations a measurement has, and its result as JSON. */
#include "mpi_bench.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    SAMPLES_MAX = 1 << 20,   /* timed operations of one measurement */
    ROUND_FROM = 16,         /* operations between two looks at the clock, at first */
    ROUND_NS = 2000000,      /* which become more while they last no longer than this */
    ROUND_LONG_NS = 50000000, /* and fewer when they last longer than this */
    WARM_UP_LEAST = 100,     /* operations of a warm-up that is not timed */
    WARM_UP_DIVISOR = 10,
    MORE_BYTES = 96          /* what follows the times in a result */
};

int64_t *samples_ns(void)
{
    static int64_t *samples;
    if (!samples)
        samples = allocate(SAMPLES_MAX * (int64_t)sizeof *samples);
    return samples;
}

/* Rank 0 decides, the others follow. */
static int64_t agree(int64_t value)
{
    MPI_Bcast(&value, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    return value;
}

/* So many that looking at the clock in between costs nothing, and that the time is kept. */
static int64_t next_round(int64_t count, int64_t took_ns)
{
    if (took_ns < ROUND_NS)
        return count * 2;
    return took_ns > ROUND_LONG_NS && count > 1 ? count / 2 : count;
}

/* Runs rounds until the time is over; answers how many operations were timed. */
static int64_t rounds(int64_t time_ms, int64_t *round, repeat body, void *state)
{
    int64_t done = 0, is_over = 0, begun = now_ns();
    while (!is_over) {
        int64_t start = now_ns();
        int64_t count = *round < SAMPLES_MAX - done ? *round : SAMPLES_MAX - done;
        body(state, count, samples_ns() + done);
        done += count;
        int64_t end = now_ns();
        is_over = agree(end - begun >= time_ms * 1000000 || done == SAMPLES_MAX);
        *round = agree(next_round(*round, end - start));
    }
    return done;
}

int64_t measure(const struct measurement *m, repeat body, void *state)
{
    int64_t round = ROUND_FROM;
    if (m->iterations == 0) {
        rounds(m->warmup_ms, &round, body, state);
        return rounds(m->duration_ms, &round, body, state);
    }
    int64_t count = m->iterations < SAMPLES_MAX ? m->iterations : SAMPLES_MAX;
    int64_t tenth = count / WARM_UP_DIVISOR;
    body(state, tenth < WARM_UP_LEAST ? WARM_UP_LEAST : tenth, samples_ns());
    body(state, count, samples_ns());
    return count;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double at(const int64_t *sorted, int64_t count, double quantile)
{
    int64_t index = (int64_t)(quantile * (double)count);
    return (double)sorted[index < count ? index : count - 1] / 1e3;
}

static struct checks all_checks(void)
{
    struct checks sum = { 0, 0 };
    MPI_Reduce(&checks, &sum, 2, MPI_INT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    return sum;
}

static double mean_ns(const int64_t *times, int64_t count)
{
    double total = 0;
    for (int64_t i = 0; i < count; i++)
        total += (double)times[i];
    return total / (double)count;
}

/* `more`: further members of the object, each after a comma. */
static void print_times(int64_t *times, int64_t count, const char *more)
{
    struct checks sum = all_checks();
    if (rank != 0)
        return;
    double mean = mean_ns(times, count);
    qsort(times, (size_t)count, sizeof *times, by_value);
    printf("{\"count\":%" PRId64 ",\"mean_us\":%.4f,\"min_us\":%.3f,\"p50_us\":%.3f,"
           "\"p90_us\":%.3f,\"p99_us\":%.3f,\"p999_us\":%.3f,\"p9999_us\":%.3f,\"max_us\":%.3f,"
           "\"validated\":%" PRId64 ",\"wrong\":%" PRId64 "%s}\n",
           count, mean / 1e3, at(times, count, 0), at(times, count, 0.5),
           at(times, count, 0.9), at(times, count, 0.99), at(times, count, 0.999),
           at(times, count, 0.9999), (double)times[count - 1] / 1e3, sum.validated, sum.wrong,
           more);
}

/* Of each operation the time of its slowest rank, at rank 0; to be freed. */
static int64_t *slowest_ns(int64_t count)
{
    int64_t *slowest = allocate(count * (int64_t)sizeof *slowest);
    MPI_Reduce(samples_ns(), slowest, (int)count, MPI_INT64_T, MPI_MAX, 0, MPI_COMM_WORLD);
    return slowest;
}

double mean_of_slowest_ns(int64_t count)
{
    int64_t *slowest = slowest_ns(count);
    double mean = mean_ns(slowest, count);
    MPI_Bcast(&mean, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    free(slowest);
    return mean;
}

void print_slowest(int64_t count)
{
    int64_t *slowest = slowest_ns(count);
    print_times(slowest, count, "");
    free(slowest);
}

void print_overlapped(int64_t count, double alone_ns, double compute_ns)
{
    char more[MORE_BYTES];
    int64_t *slowest = slowest_ns(count);
    double left_ns = mean_ns(slowest, count) - compute_ns;
    double share = 1 - left_ns / alone_ns;
    double overlap = share < 0 ? 0 : share > 1 ? 1 : share;
    snprintf(more, sizeof more, ",\"alone_us\":%.4f,\"overlap_percent\":%.2f", alone_ns / 1e3,
             overlap * 100);
    print_times(slowest, count, more);
    free(slowest);
}

void print_times_of(int from, int64_t count)
{
    int64_t *all = allocate(from * count * (int64_t)sizeof *all);
    MPI_Comm timed;
    MPI_Comm_split(MPI_COMM_WORLD, rank < from, rank, &timed);
    if (rank < from)
        MPI_Gather(samples_ns(), (int)count, MPI_INT64_T, all, (int)count, MPI_INT64_T, 0, timed);
    MPI_Comm_free(&timed);
    print_times(all, from * count, "");
    free(all);
}

void print_stream(double messages, double seconds)
{
    /* A receiver whose window never closed has counted nothing, and then nobody has. */
    double is_empty = messages != 0 && seconds <= 0;
    double own[3] = { messages, seconds > 0 ? messages / seconds : 0, is_empty }, sum[3] = { 0 };
    MPI_Reduce(own, sum, 3, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    struct checks all = all_checks();
    int is_whole = sum[2] == 0 && sum[1] > 0;
    if (rank == 0)
        printf("{\"messages\":%.0f,\"seconds\":%.9f,\"validated\":%" PRId64
               ",\"wrong\":%" PRId64 "}\n", is_whole ? sum[0] : 0, is_whole ? sum[0] / sum[1] : 0,
               all.validated, all.wrong);
}
