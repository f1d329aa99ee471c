/* Every symbol that libprobing.so exports. Loading the library is enough to start the probe;
 * these serve those who want to ask. All may be called from any thread. */
#ifndef PROBING_PROBING_H_
#define PROBING_PROBING_H_

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
 * out by the caller; src/pyapi/native.h lists them. 1, or 0 when there is no probe or no Python. */
PROBING_EXPORT int probing_python(void);

#ifdef __cplusplus
}
#endif

#endif /* PROBING_PROBING_H_ */
