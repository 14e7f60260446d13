/*
 * What efa-bench measures of an MPI. `efa-bench mpi` compiles it with the mpicc of the machine and
 * starts it with mpirun.
 *
 * Rank 0 reads one measurement per line from standard input,
 *
 *   TEST BYTES DEPTH ITERATIONS DURATION_MS WARMUP_MS VALIDATE
 *
 * (ITERATIONS 0: as many as fit into DURATION_MS) and answers each with one line of JSON. It ends
 * with its input. Every message and every result is checked with VALIDATE 1; of collective
 * operations the first and the last always are.
 */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SAMPLES_MAX = 1 << 20,   /* timed operations of one measurement */
    ROUND_FROM = 16,         /* operations between two looks at the clock, at first */
    ROUND_NS = 2000000,      /* which become more while they last no longer than this */
    WARM_UP_LEAST = 100,     /* operations of a warm-up that is not timed */
    WARM_UP_DIVISOR = 10,
    LINE_BYTES = 256,
    TAG = 7,
    TAG_LAST = 8,
    CLOCK_EVERY = 16         /* messages of a stream */
};

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

static int rank, ranks;
static int64_t *samples_ns;
static int64_t *slowest_ns;
static struct checks checks;

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void fail(const char *what, long long value)
{
    fprintf(stderr, "efa-bench mpi: rank %d: %s %lld\n", rank, what, value);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void *allocate(int64_t bytes)
{
    /* Pages of their own from the start: the first touch is not to be measured. */
    void *memory = malloc(bytes > 0 ? (size_t)bytes : 1);
    if (!memory)
        fail("no memory for this many bytes:", bytes);
    memset(memory, 0, bytes > 0 ? (size_t)bytes : 1);
    return memory;
}

/* Contents: a sequence of its own for each sender and message. */

static void fill(uint8_t *data, int64_t bytes, int from, int64_t message)
{
    uint32_t seed = 2654435761u * ((uint32_t)from * 1009u + (uint32_t)message + 1u);
    for (int64_t i = 0; i < bytes; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (uint8_t)(seed >> 24);
    }
}

static void check(const uint8_t *data, int64_t bytes, int from, int64_t message)
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

/* Ping-pong. */

struct ping_pong {
    uint8_t *data;
    int64_t bytes;
    int64_t validate;
    int64_t sequence;
};

static void one_way(struct ping_pong *p, int to)
{
    if (p->validate)
        fill(p->data, p->bytes, rank, p->sequence);
    MPI_Send(p->data, (int)p->bytes, MPI_BYTE, to, TAG, MPI_COMM_WORLD);
}

static void other_way(struct ping_pong *p, int from)
{
    MPI_Recv(p->data, (int)p->bytes, MPI_BYTE, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (p->validate)
        check(p->data, p->bytes, from, p->sequence);
}

static void round_trips(void *state, int64_t count, int64_t *times_ns)
{
    struct ping_pong *p = state;
    for (int64_t i = 0; i < count; i++, p->sequence++) {
        if (rank == 0) {
            int64_t start = now_ns();
            one_way(p, 1);
            other_way(p, 1);
            times_ns[i] = now_ns() - start;
        } else if (rank == 1) {
            other_way(p, 0);
            one_way(p, 0);
        }
    }
}

/* Collective operations: barriers between them, each lasts as long as on its slowest rank. */

struct collective {
    const char *test;
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

static void operations(void *state, int64_t count, int64_t *times_ns)
{
    struct collective *c = state;
    for (int64_t i = 0; i < count; i++, c->sequence++) {
        int is_checked = c->validate || i == 0 || i == count - 1;
        if (is_checked)
            prepare(c);
        MPI_Barrier(MPI_COMM_WORLD);
        int64_t start = now_ns();
        operate(c);
        times_ns[i] = now_ns() - start;
        if (is_checked)
            verify(c);
    }
}

/* How many operations a measurement has: rank 0 decides, the others follow. */

typedef void (*repeat)(void *state, int64_t count, int64_t *times_ns);

static int64_t agree(int64_t value)
{
    MPI_Bcast(&value, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    return value;
}

/* Runs rounds until the time is over; answers how many operations were timed. */
static int64_t rounds(int64_t time_ms, int64_t *round, repeat body, void *state)
{
    int64_t done = 0, is_over = 0, begun = now_ns();
    while (!is_over) {
        int64_t start = now_ns();
        int64_t count = *round < SAMPLES_MAX - done ? *round : SAMPLES_MAX - done;
        body(state, count, samples_ns + done);
        done += count;
        int64_t end = now_ns();
        is_over = agree(end - begun >= time_ms * 1000000 || done == SAMPLES_MAX);
        /* Long enough that looking at the clock in between costs nothing. */
        *round = agree(end - start < ROUND_NS ? *round * 2 : *round);
    }
    return done;
}

/* Warms up and measures; answers how many operations were timed. */
static int64_t measure(const struct measurement *m, repeat body, void *state)
{
    int64_t round = ROUND_FROM;
    if (m->iterations == 0) {
        rounds(m->warmup_ms, &round, body, state);
        return rounds(m->duration_ms, &round, body, state);
    }
    int64_t count = m->iterations < SAMPLES_MAX ? m->iterations : SAMPLES_MAX;
    int64_t tenth = count / WARM_UP_DIVISOR;
    body(state, tenth < WARM_UP_LEAST ? WARM_UP_LEAST : tenth, samples_ns);
    body(state, count, samples_ns);
    return count;
}

/* Results as JSON. */

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
    struct checks sum;
    MPI_Reduce(&checks, &sum, 2, MPI_INT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    return sum;
}

static void print_times(int64_t *times, int64_t count, struct checks sum)
{
    double total = 0;
    for (int64_t i = 0; i < count; i++)
        total += (double)times[i];
    qsort(times, (size_t)count, sizeof *times, by_value);
    printf("{\"count\":%" PRId64 ",\"mean_us\":%.4f,\"min_us\":%.3f,\"p50_us\":%.3f,"
           "\"p90_us\":%.3f,\"p99_us\":%.3f,\"p999_us\":%.3f,\"p9999_us\":%.3f,\"max_us\":%.3f,"
           "\"validated\":%" PRId64 ",\"wrong\":%" PRId64 "}\n",
           count, total / (double)count / 1e3, at(times, count, 0), at(times, count, 0.5),
           at(times, count, 0.9), at(times, count, 0.99), at(times, count, 0.999),
           at(times, count, 0.9999), (double)times[count - 1] / 1e3, sum.validated, sum.wrong);
}

static void measure_latency(const struct measurement *m)
{
    struct ping_pong p = { allocate(m->bytes), m->bytes, m->validate, 0 };
    int64_t count = measure(m, round_trips, &p);
    struct checks sum = all_checks();
    if (rank == 0)
        print_times(samples_ns, count, sum);
    free(p.data);
}

static void measure_collective(const struct measurement *m)
{
    struct collective c = { m->test, allocate(m->bytes), allocate(m->bytes * ranks), m->bytes,
                m->validate, 0 };
    int64_t count = measure(m, operations, &c);
    MPI_Reduce(samples_ns, slowest_ns, (int)count, MPI_INT64_T, MPI_MAX, 0, MPI_COMM_WORLD);
    struct checks sum = all_checks();
    if (rank == 0)
        print_times(slowest_ns, count, sum);
    free(c.mine);
    free(c.all);
}

/* A stream from rank 0 to rank 1: as many messages in flight as the depth says. A slot is used
 * again when its message is done, the oldest first. After the last message come depth - 1 more, so
 * that every receive that was posted has its message. */

struct stream {
    uint8_t *data;
    MPI_Request *slots;
    int64_t depth;
    /* The receiver's window: from the end of the warm-up to a moment when messages still come. */
    int64_t begun_ns;
    int64_t opened_ns;
    int64_t messages;
    double seconds;
};

static void stream_out(struct stream *s, const struct measurement *m)
{
    /* A little longer than the receiver's window. */
    int64_t end_ns = now_ns() + (m->warmup_ms + m->duration_ms) * 1100000;
    int64_t last = m->iterations > 0 ? m->iterations + 2 * s->depth : -1;
    for (int64_t i = 0; last < 0 || i < last + s->depth; i++) {
        int64_t slot = i % s->depth;
        uint8_t *data = s->data + slot * m->bytes;
        if (i >= s->depth)
            MPI_Wait(&s->slots[slot], MPI_STATUS_IGNORE);
        if (last < 0 && i % CLOCK_EVERY == 0 && now_ns() >= end_ns)
            last = i;
        if (m->validate)
            fill(data, m->bytes, 0, i);
        MPI_Isend(data, (int)m->bytes, MPI_BYTE, 1, i == last ? TAG_LAST : TAG, MPI_COMM_WORLD,
                  &s->slots[slot]);
    }
    MPI_Waitall((int)s->depth, s->slots, MPI_STATUSES_IGNORE);
}

static void post_receive(struct stream *s, int64_t slot, int64_t bytes)
{
    MPI_Irecv(s->data + slot * bytes, (int)bytes, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD,
              &s->slots[slot]);
}

/* Message number i has come. */
static void watch(struct stream *s, const struct measurement *m, int64_t i, int is_last)
{
    int is_counted = m->iterations > 0;
    if (s->seconds > 0 || (!is_counted && !is_last && i % CLOCK_EVERY != 0))
        return;
    int64_t now = now_ns();
    if (!s->opened_ns) {
        int opens = is_counted ? i + 1 == s->depth : now - s->begun_ns >= m->warmup_ms * 1000000;
        s->opened_ns = opens ? now : 0;
        s->messages = -i;
        return;
    }
    int closes = is_counted ? i + 1 == s->depth + m->iterations
                            : is_last || now - s->opened_ns >= m->duration_ms * 1000000;
    if (closes) {
        s->messages += i;
        s->seconds = (double)(now - s->opened_ns) / 1e9;
    }
}

static void stream_in(struct stream *s, const struct measurement *m)
{
    int64_t last = -1;
    for (int64_t i = 0; last < 0 || i < last + s->depth; i++) {
        int64_t slot = i % s->depth;
        MPI_Status status;
        MPI_Wait(&s->slots[slot], &status);
        if (m->validate)
            check(s->data + slot * m->bytes, m->bytes, 0, i);
        if (status.MPI_TAG == TAG_LAST)
            last = i;
        if (last < 0)
            post_receive(s, slot, m->bytes);
        watch(s, m, i, i == last);
    }
}

static void measure_bandwidth(const struct measurement *m)
{
    struct stream s = { allocate(m->bytes * m->depth),
                        allocate(m->depth * (int64_t)sizeof(MPI_Request)), m->depth, 0, 0, 0, 0 };
    for (int64_t slot = 0; rank == 1 && slot < s.depth; slot++)
        post_receive(&s, slot, m->bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    s.begun_ns = now_ns();
    if (rank == 0)
        stream_out(&s, m);
    else if (rank == 1)
        stream_in(&s, m);
    struct checks sum = all_checks();
    double found[2] = { (double)s.messages, s.seconds };
    if (rank == 1)
        MPI_Send(found, 2, MPI_DOUBLE, 0, TAG, MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Recv(found, 2, MPI_DOUBLE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("{\"messages\":%.0f,\"seconds\":%.9f,\"validated\":%" PRId64
               ",\"wrong\":%" PRId64 "}\n", found[0], found[1], sum.validated, sum.wrong);
    }
    free(s.data);
    free(s.slots);
}

/* The next line of rank 0's input, at all ranks; 0 at its end. */
static int next(struct measurement *m)
{
    int is_there = 0;
    if (rank == 0) {
        char line[LINE_BYTES];
        memset(m, 0, sizeof *m);
        is_there = fgets(line, sizeof line, stdin) != NULL;
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
    samples_ns = allocate(SAMPLES_MAX * (int64_t)sizeof *samples_ns);
    slowest_ns = allocate(SAMPLES_MAX * (int64_t)sizeof *slowest_ns);
    if (rank == 0) {
        printf("{\"ranks\":%d}\n", ranks);
        fflush(stdout);
    }
    struct measurement m;
    while (next(&m)) {
        checks = (struct checks){ 0, 0 };
        if (!strcmp(m.test, "latency"))
            measure_latency(&m);
        else if (!strcmp(m.test, "bandwidth"))
            measure_bandwidth(&m);
        else
            measure_collective(&m);
        fflush(stdout);
    }
    free(samples_ns);
    free(slowest_ns);
    MPI_Finalize();
    return 0;
}
