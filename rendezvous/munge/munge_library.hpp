// The functions of libmunge 0.5 that credentials need, opened at run time.
#pragma once

#include <sys/types.h>

#include <string>

namespace ddprun::rdzv {

struct MungeContext;

/// Null: not opened yet.
struct MungeFunctions {
  MungeContext* (*context_create)() = nullptr;
  void (*context_destroy)(MungeContext*) = nullptr;
  int (*context_set)(MungeContext*, int option, ...) = nullptr;
  const char* (*context_error)(MungeContext*) = nullptr;
  int (*encode)(char** credential, MungeContext*, const void* payload, int bytes) = nullptr;
  int (*decode)(const char* credential, MungeContext*, void** payload, int* bytes, uid_t*,
                gid_t*) = nullptr;
  const char* (*error_text)(int) = nullptr;
};

// As munge.h has them.
inline constexpr int kMungeOptionSocket = 8;
inline constexpr int kMungeOptionOnlyUser = 9;
inline constexpr int kMungeSuccess = 0;
// munged cannot be asked: it may be starting.
inline constexpr int kMungeSocket = 6;
// Errors of a credential that is otherwise sound; its payload is there.
inline constexpr int kMungeExpired = 15;
inline constexpr int kMungeRewound = 16;
inline constexpr int kMungeReplayed = 17;
inline constexpr int kMungeUnauthorized = 18;

/// It stays open until the process ends. Not empty: why it cannot be used, with the remedy.
std::string open_munge(MungeFunctions& call);

}  // namespace ddprun::rdzv
