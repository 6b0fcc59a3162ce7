#include "rendezvous/munge/munge_library.hpp"

#include <dlfcn.h>

#include <type_traits>

#include <fmt/format.h>

namespace ddprun::rdzv {
namespace {

constexpr const char* kLibrary = "libmunge.so.2";

/// A failure's text; empty: all were found.
std::string find_functions(MungeFunctions& call) {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return dlerror();
  std::string missing;
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr && missing.empty()) missing = name;
  };
  find("munge_ctx_create", call.context_create);
  find("munge_ctx_destroy", call.context_destroy);
  find("munge_ctx_set", call.context_set);
  find("munge_ctx_strerror", call.context_error);
  find("munge_encode", call.encode);
  find("munge_decode", call.decode);
  find("munge_strerror", call.error_text);
  return missing.empty() ? "" : fmt::format("{} has no {}", kLibrary, missing);
}

}  // namespace

std::string open_munge(MungeFunctions& call) {
  const std::string why = find_functions(call);
  if (why.empty()) return "";
  return fmt::format(
      "MUNGE cannot be used ({}); its library is in the package libmunge2 (Debian, Ubuntu) or "
      "munge-libs (RHEL, Rocky)",
      why);
}

}  // namespace ddprun::rdzv
