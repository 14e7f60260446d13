/* Names and rates, compared with the system's library for every number it could know. */
#include "system.h"

typedef const char *(*name_fn)(int);
typedef int (*number_fn)(int);

static void check_names(const char *name, name_fn ours)
{
	name_fn theirs = (name_fn)system_symbol(name);
	CHECK(ours != theirs);
	for (int i = -3; i < 40; i++) {
		if (strcmp(ours(i), theirs(i)) != 0) {
			fprintf(stderr, "%s(%d): '%s', not '%s'\n", name, i, ours(i), theirs(i));
			exit(1);
		}
	}
}

static void check_numbers(const char *name, number_fn ours, int last)
{
	number_fn theirs = (number_fn)system_symbol(name);
	CHECK(ours != theirs);
	for (int i = 0; i < last; i++) {
		if (ours(i) != theirs(i)) {
			fprintf(stderr, "%s(%d): %d, not %d\n", name, i, ours(i), theirs(i));
			exit(1);
		}
	}
}

int main(void)
{
	check_names("ibv_wc_status_str", (name_fn)ibv_wc_status_str);
	check_names("ibv_port_state_str", (name_fn)ibv_port_state_str);
	check_names("ibv_node_type_str", (name_fn)ibv_node_type_str);
	check_names("ibv_event_type_str", (name_fn)ibv_event_type_str);
	check_numbers("ibv_rate_to_mult", (number_fn)ibv_rate_to_mult, 64);
	check_numbers("ibv_rate_to_mbps", (number_fn)ibv_rate_to_mbps, 64);
	check_numbers("mult_to_ibv_rate", (number_fn)mult_to_ibv_rate, 1000);
	check_numbers("mbps_to_ibv_rate", (number_fn)mbps_to_ibv_rate, 1500000);
	return 0;
}
