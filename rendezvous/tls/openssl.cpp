#include "rendezvous/tls/openssl.hpp"

#include <dlfcn.h>

#include <type_traits>
#include <utility>

#include <fmt/format.h>

namespace ddprun::rdzv::openssl {
namespace {

using Opened = boost::system::result<std::shared_ptr<const Library>, std::string>;

constexpr unsigned long kOldestVersion = 0x10101000;  // 1.1.1, the first with TLS 1.3

Opened failed(std::string why) { return {boost::system::in_place_error, std::move(why)}; }

/// Returns the name of the first function that the library lacks; empty: none. Those of libcrypto
/// are found, too: libssl depends on it.
std::string find_all(void* library, Functions& call) {
  std::string missing;
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr && missing.empty()) missing = name;
  };
#define DDPRUN_FIND(name) find(#name, call.name);
  DDPRUN_OPENSSL_FUNCTIONS(DDPRUN_FIND)
#undef DDPRUN_FIND
  return missing;
}

}  // namespace

Opened open_library(const char* name) {
  // Never closed: OpenSSL keeps data of each thread, which it frees when the thread ends.
  void* const handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) return failed(dlerror());
  auto library = std::make_shared<Library>();
  if (const std::string missing = find_all(handle, library->call); !missing.empty())
    return failed(fmt::format("{} has no {}; OpenSSL 1.1.1 or 3 is needed", name, missing));
  library->version = library->call.OpenSSL_version(OPENSSL_VERSION);
  if (library->call.OpenSSL_version_num() < kOldestVersion)
    return failed(fmt::format("{} is {}; 1.1.1 or 3 is needed", name, library->version));
  // A process that ends by _exit() or in a fork cleans up nothing.
  if (library->call.OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, nullptr) != 1)
    return failed(
        fmt::format("{} ({}) could not be initialized: its settings file (openssl.cnf) "
                    "may be broken",
                    name, library->version));
  return std::shared_ptr<const Library>(std::move(library));
}

Opened open_library() {
  std::string reasons;
  for (const char* name : kLibraryNames) {
    auto opened = open_library(name);
    if (opened) return opened;
    reasons += (reasons.empty() ? "" : "; ") + opened.error();
  }
  return failed(
      fmt::format("OpenSSL 1.1.1 or 3 cannot be used ({}); install it (Debian and Ubuntu: libssl3, "
                  "libssl3t64 or "
                  "libssl1.1; RHEL and Rocky: openssl-libs)",
                  reasons));
}

}  // namespace ddprun::rdzv::openssl
