#include "rendezvous/munge/munge.hpp"

#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdlib>
#include <new>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

namespace ddprun::rdzv {
namespace {

constexpr const char* kLibrary = "libmunge.so.2";

// As munge.h of libmunge 0.5 has them.
constexpr int kOptionSocket = 8;
constexpr int kOptionOnlyUser = 9;
constexpr int kSuccess = 0;
// Errors of a credential that is otherwise sound; its payload is there.
constexpr int kExpired = 15;
constexpr int kRewound = 16;
constexpr int kReplayed = 17;
constexpr int kUnauthorized = 18;

struct Context;

struct Functions {
  Context* (*context_create)() = nullptr;
  void (*context_destroy)(Context*) = nullptr;
  int (*context_set)(Context*, int option, ...) = nullptr;
  const char* (*context_error)(Context*) = nullptr;
  int (*encode)(char** credential, Context*, const void* payload, int bytes) = nullptr;
  int (*decode)(const char* credential, Context*, void** payload, int* bytes, uid_t*,
                gid_t*) = nullptr;
  const char* (*error_text)(int) = nullptr;
};

/// A failure's text; empty: all were found.
std::string open_library(Functions& call) {
  // It stays open until the process ends.
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

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};

class Munge final : public proto::Credentials {
 public:
  explicit Munge(std::string socket) : socket_(std::move(socket)) {}

  Text encode(const std::string& payload) override {
    const Opened context = open();
    if (!context) return failed(problem_);
    call_.context_set(context.get(), kOptionOnlyUser, geteuid());
    char* credential = nullptr;
    const int result =
        call_.encode(&credential, context.get(), payload.data(), static_cast<int>(payload.size()));
    const std::unique_ptr<char, FreeMemory> owner(credential);
    if (result != kSuccess) return failed(text_of(result, context.get()));
    return {boost::system::in_place_value, credential};
  }

  Text decode(const std::string& credential) override {
    const Opened context = open();
    if (!context) return failed(problem_);
    void* payload = nullptr;
    int bytes = 0;
    uid_t uid = 0;
    const int result =
        call_.decode(credential.c_str(), context.get(), &payload, &bytes, &uid, nullptr);
    const std::unique_ptr<void, FreeMemory> owner(payload);
    // Clocks differ, a job lasts long, and several agents of a machine read the same credential.
    // That it is this rendezvous's own is proven by the secret in it.
    const bool is_sound =
        result == kSuccess || result == kExpired || result == kRewound || result == kReplayed;
    if (result == kUnauthorized) return failed("it belongs to another user's job");
    if (!is_sound) return failed(text_of(result, context.get()));
    if (uid != geteuid())
      return failed(
          fmt::format("user {} has made its credential, and this is user {}", uid, geteuid()));
    if (payload == nullptr || bytes <= 0) return {boost::system::in_place_value, ""};
    return {boost::system::in_place_value, static_cast<const char*>(payload),
            static_cast<std::size_t>(bytes)};
  }

 private:
  struct Close {
    void (*destroy)(Context*) = nullptr;
    void operator()(Context* context) const { destroy(context); }
  };
  using Opened = std::unique_ptr<Context, Close>;

  static Text failed(std::string why) { return {boost::system::in_place_error, std::move(why)}; }

  /// Null: problem_ says why.
  Opened open() {
    if (call_.context_create == nullptr && problem_.empty()) {
      if (const std::string why = open_library(call_); !why.empty())
        problem_ = fmt::format(
            "MUNGE cannot be used ({}); its library is in the package libmunge2 (Debian, Ubuntu) "
            "or "
            "munge-libs (RHEL, Rocky)",
            why);
    }
    if (!problem_.empty()) return {nullptr, Close{}};
    Opened context(call_.context_create(), Close{call_.context_destroy});
    if (!context) throw std::bad_alloc();
    if (!socket_.empty()) call_.context_set(context.get(), kOptionSocket, socket_.c_str());
    return context;
  }

  /// What a context says names the socket; the plain text does not.
  [[nodiscard]] std::string text_of(int error, Context* context) const {
    const char* const more = call_.context_error(context);
    return fmt::format("MUNGE: {}", more != nullptr ? more : call_.error_text(error));
  }

  const std::string socket_;
  Functions call_;
  std::string problem_;  // of the library
};

}  // namespace

std::unique_ptr<proto::Credentials> munge_credentials(std::string socket) {
  return std::make_unique<Munge>(std::move(socket));
}

}  // namespace ddprun::rdzv
