// Marks a function with hot loops: compiled once for each vector width, chosen when the program
// starts.
#pragma once

// The bits are the same in every clone: contraction is off, and a vector lane rounds as a scalar
// does. Sanitizers cannot stand functions that are chosen before they have started.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    (!defined(__clang__) || __clang_major__ >= 22)
#define DDPRUN_VECTOR_CLONES \
  __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define DDPRUN_VECTOR_CLONES
#endif
/// DDPRUN_VECTOR_CLONES for function templates, of which clang has no clones.
#ifdef __clang__
#define DDPRUN_TEMPLATE_CLONES
#else
#define DDPRUN_TEMPLATE_CLONES DDPRUN_VECTOR_CLONES
#endif

/// For what such a function calls in its loops: code that is not inlined stays behind in the
/// narrowest version.
#define DDPRUN_VECTOR_INLINE __attribute__((always_inline))
/// Beside DDPRUN_TEMPLATE_CLONES: inlines all that the function calls, however long it is.
#define DDPRUN_VECTOR_FLATTEN __attribute__((flatten))
