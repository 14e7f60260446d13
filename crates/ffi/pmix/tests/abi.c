/* The numbers of src/sys.rs against the installed PMIx headers. */
#include <stddef.h>
#include <stdint.h>
#include <pmix.h>

#define SIZE(type, size) _Static_assert(sizeof(type) == (size), #type)
#define AT(type, field, offset) _Static_assert(offsetof(type, field) == (offset), #type "." #field)
#define IS(name, value) _Static_assert((int64_t)(name) == (int64_t)(value), #name)
#define TEXT(name, value) _Static_assert(sizeof(name) == sizeof(value), #name)

IS(PMIX_MAX_NSLEN, 255);
IS(PMIX_MAX_KEYLEN, 511);
IS(PMIX_SUCCESS, 0);
IS(PMIX_ERR_TIMEOUT, -24);
IS(PMIX_ERR_NOT_FOUND, -46);
IS(PMIX_STRING, 3);
IS(PMIX_INT, 6);
IS(PMIX_UINT32, 14);
IS(PMIX_GLOBAL, 3);
IS(PMIX_RANK_WILDCARD, UINT32_MAX - 1);
TEXT(PMIX_JOB_SIZE, "pmix.job.size");
TEXT(PMIX_TIMEOUT, "pmix.timeout");

SIZE(pmix_rank_t, 4);
SIZE(pmix_status_t, 4);
SIZE(pmix_scope_t, 1);
SIZE(pmix_data_type_t, 2);
SIZE(pmix_info_directives_t, 4);

SIZE(pmix_proc_t, 260);
AT(pmix_proc_t, nspace, 0);
AT(pmix_proc_t, rank, 256);

SIZE(pmix_value_t, 32);
AT(pmix_value_t, type, 0);
AT(pmix_value_t, data, 8);

SIZE(pmix_info_t, 552);
AT(pmix_info_t, key, 0);
AT(pmix_info_t, flags, 512);
AT(pmix_info_t, value, 520);
