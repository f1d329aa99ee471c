/* Every symbol that libprobing.so exports. Loading the library is enough to start the probe;
 * these serve those who want to ask. All may be called from any thread. */
#ifndef PROBING_PROBING_H_
#define PROBING_PROBING_H_

#include <stddef.h>
#include <stdint.h>

#define PROBING_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0" */
PROBING_EXPORT const char* probing_version(void);

/* 1 while the probe listens in this process, else 0. */
PROBING_EXPORT int probing_active(void);

/* Starts the probe if it does not run, for instance after an eject. Returns probing_active(). */
PROBING_EXPORT int probing_start(void);

/* For the Python package. Leaves a dict of functions in sys.modules["_probing_native"], to be taken
 * out by the caller; src/hooks/native.h lists them. 1, or 0 when there is no probe or no Python. */
PROBING_EXPORT int probing_python(void);

/* Tables of your own, written by native code of the job: docs/guides/plugins.md. */

enum probing_type {
  PROBING_NULL = 0, /* of a value only */
  PROBING_INT64 = 1,
  PROBING_DOUBLE = 2,
  PROBING_BOOL = 3,
  PROBING_STRING = 4, /* UTF-8 */
  PROBING_BYTES = 5,
  PROBING_TIMESTAMP = 6, /* nanoseconds since the epoch, UTC */
};

struct probing_column {
  const char* name;
  int type; /* one of probing_type */
};

struct probing_value {
  int type; /* the column's, or PROBING_NULL */
  union {
    int64_t integer; /* also of bool and timestamp */
    double real;
    const char* text; /* borrowed until the call returns */
  } as;
  size_t size; /* bytes of text */
};

struct probing_table;

/* The table `name` ("loader.batches"), which gets a column `timestamp` before these. The same again for the
 * same name and columns. NULL when that cannot be: a name without a schema, one of Probing's own, other
 * columns than before. Stays valid for ever: rows go nowhere while nothing records. Code that holds one keeps
 * the library mapped after an eject. */
PROBING_EXPORT struct probing_table* probing_open_table(const char* name,
                                                        const struct probing_column* columns, int count);

/* Adds a row, stamped with the time; missing values at the end are NULL. 1 when it was stored. No lock and
 * no allocation, about 50 ns; from any thread, but not from a signal handler. */
PROBING_EXPORT int probing_append(struct probing_table* table, const struct probing_value* values, int count);

#ifdef __cplusplus
}
#endif

#endif /* PROBING_PROBING_H_ */
