/* The C ABI between pipefill and a kind of fill job: work that runs, chunk after chunk, while a pipeline stage waits.
 *
 * A kind is a table of functions. The built-in kinds and users' plug-ins (shared libraries that export
 * `pipefill_fill_kind`) stand behind the same table. Everything is called in a worker process of its own, by one
 * thread, never by the rank that trains; no function may let a C++ exception out.
 *
 * A job is a fixed list of chunks, 0 .. chunks-1, in one configuration out of those the kind offers. The configuration
 * is pinned when the job first runs. Three rules make a job resumable, also after a kill -9 at any instant:
 *
 *   1. All that must outlive a chunk is in the job's *state*: memory that the host maps from a file and hands to
 *      `restore`. Its size is known before (`state_bytes`); the host fills it with zeros once, and never touches it
 * again.
 *   2. A chunk is repeatable: while chunk i runs, nothing of the state that chunk i reads may be overwritten. (Write
 * next to it, and let chunk i+1 read from there.) The host counts the finished chunks; a killed chunk is run again.
 *   3. Output files are written by `save` only, whole, under another name and renamed, from the state alone. So output
 *      appears exactly once, whatever was killed and repeated.
 *
 * The same job in the same configuration gives the same bytes of output, whether its chunks run alone, in bubbles, or
 * with kills between them. */
#ifndef PIPEFILL_FILL_JOB_H
#define PIPEFILL_FILL_JOB_H

#include <stdint.h>

#ifdef __cplusplus
#define PIPEFILL_NOEXCEPT noexcept
extern "C" {
#else
#define PIPEFILL_NOEXCEPT
#endif

/* Grows when a member changes its meaning or moves. Members are only ever added at the end of a struct, which
 * `struct_bytes` tells. */
#define PIPEFILL_FILL_JOB_ABI 1

typedef struct pipefill_fill_job pipefill_fill_job; /* the kind's own */

/* One key of the job file's `with:` section, as text; a list is one entry per element under the same name. */
typedef struct {
  const char* name;
  const char* value;
} pipefill_fill_parameter;

/* What a job is made from; valid during `create` only. */
typedef struct {
  uint32_t struct_bytes;
  const char* name;                          /* of the job, also of its directory */
  const char* directory;                     /* where outputs go: fill/<job>/, exists */
  const char* base_directory;                /* relative paths in parameters start here */
  const pipefill_fill_parameter* parameters; /* in the file's order */
  uint64_t parameter_count;
  uint64_t seed;
  int32_t threads;       /* for computing; pinned with the configuration */
  int64_t shard, shards; /* this job does part `shard` of `shards` of the work: 0 of 1 for a whole job */
  int64_t memory_limit;  /* bytes the job may use in all; 0: not limited */
  /* Of a part: the directory of the whole job, where its parts leave what they have to agree upon (which checkpoint,
   * say), each with the same file name, made by whoever is first. Of a whole job: `directory`. */
  const char* shared_directory;
} pipefill_fill_setup;

/* One way to run the whole job. Costs that nobody has measured yet are predicted from `flops` and `bytes`. */
typedef struct {
  uint32_t struct_bytes;
  char name[64];        /* "batch=4": names it in job files, states and traces */
  int64_t chunks;       /* of the whole job */
  int64_t state_bytes;  /* mapped from a file, see rule 1 */
  int64_t memory_bytes; /* most that the job needs beside it while any chunk runs */
  int64_t samples;      /* the job's units of useful work: sequences, tokens, steps; the same in every configuration */
} pipefill_fill_configuration;

/* What one chunk costs. Chunks of one `cost_class` take about the same time. */
typedef struct {
  uint32_t struct_bytes;
  int32_t cost_class;   /* 0 .. ; few */
  double flops;         /* floating point operations */
  double bytes;         /* memory traffic */
  int64_t memory_bytes; /* beside the state while it runs */
  double samples;       /* share of the job's samples that is done with it */
} pipefill_fill_chunk;

/* What the host says about one run of one chunk. */
typedef struct {
  uint32_t struct_bytes;
  int64_t
      deadline_ns; /* CLOCK_MONOTONIC; when the bubble is expected to end. The host stops at chunk boundaries itself */
  void* context;
  int32_t (*should_stop)(void* context); /* for work without chunks (a program): not 0 as soon as the bubble is over */
} pipefill_fill_grant;

typedef enum {
  PIPEFILL_FILL_OK = 0,
  PIPEFILL_FILL_FAILED = 1,  /* this try failed; the host tries again later, three times */
  PIPEFILL_FILL_INVALID = 2, /* the job's own description is wrong: never tried again */
  PIPEFILL_FILL_OUT_OF_MEMORY = 3,
  PIPEFILL_FILL_INTERRUPTED = 4 /* should_stop said so; run the same chunk again to go on */
} pipefill_fill_result;

/* Where a function that does not return OK says why: one line, ended by a zero byte. */
typedef struct {
  char text[512];
} pipefill_fill_error;

/* All functions return a pipefill_fill_result, write `error` when that is not OK, and are called in this order:
 * create, configurations, plan*, restore, run*, save*, destroy. */
typedef struct {
  uint32_t abi;          /* PIPEFILL_FILL_JOB_ABI the kind was built with */
  uint32_t struct_bytes; /* sizeof(pipefill_fill_kind) it was built with */
  const char* name;      /* "score" */

  /* Reads the parameters and opens the input; allocates little. */
  int32_t (*create)(const pipefill_fill_setup* setup, pipefill_fill_job** job,
                    pipefill_fill_error* error) PIPEFILL_NOEXCEPT;
  /* Writes up to `room` configurations, best guess first, and their number (which may be more than `room`). */
  int32_t (*configurations)(pipefill_fill_job* job, pipefill_fill_configuration* out, int32_t room, int32_t* count,
                            pipefill_fill_error* error) PIPEFILL_NOEXCEPT;
  /* What `count` chunks from `first` on cost in a configuration. */
  int32_t (*plan)(pipefill_fill_job* job, int32_t configuration, int64_t first, int64_t count, pipefill_fill_chunk* out,
                  pipefill_fill_error* error) PIPEFILL_NOEXCEPT;
  /* Allocates what running needs and takes up the state, in which `done` chunks are finished. Called once. */
  int32_t (*restore)(pipefill_fill_job* job, int32_t configuration, void* state, int64_t done,
                     pipefill_fill_error* error) PIPEFILL_NOEXCEPT;
  /* Runs one chunk: the first not yet finished. */
  int32_t (*run)(pipefill_fill_job* job, int64_t chunk, const pipefill_fill_grant* grant,
                 pipefill_fill_error* error) PIPEFILL_NOEXCEPT;
  /* Writes the outputs of the `done` finished chunks, replacing those of an earlier save. Not in a bubble, if the host
   * can help it. After the last chunk it is always called. */
  int32_t (*save)(pipefill_fill_job* job, int64_t done, pipefill_fill_error* error) PIPEFILL_NOEXCEPT;
  void (*destroy)(pipefill_fill_job* job) PIPEFILL_NOEXCEPT;

  /* Added later; a kind without it (null, or struct_bytes that end before it) is never divided. Joins the outputs of
   * all parts of a divided job, each finished and saved in its own directory `parts[i]`, to those of the whole in
   * setup->directory: the very bytes that one undivided job in this configuration writes. `setup` is that of the whole,
   * part 0 of 1. Called outside of any job, perhaps again after a kill: as with `save`, files appear whole or not at
   * all. The host removes the parts afterwards. */
  int32_t (*merge)(const pipefill_fill_setup* setup, const char* configuration, const char* const* parts,
                   int64_t part_count, pipefill_fill_error* error) PIPEFILL_NOEXCEPT;
} pipefill_fill_kind;

/* The one symbol a plug-in exports. */
#define PIPEFILL_FILL_KIND_SYMBOL "pipefill_fill_kind_v1"
const pipefill_fill_kind* pipefill_fill_kind_v1(void) PIPEFILL_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif
