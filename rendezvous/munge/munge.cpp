#include "rendezvous/munge/munge.hpp"

#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

#include <fmt/format.h>

namespace ddprun::rdzv {
namespace {

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};

class Munge final : public proto::Credentials {
 public:
  Munge(std::string socket, MungeFunctions call) : socket_(std::move(socket)), call_(call) {}

  Text encode(const std::string& payload) override {
    const Opened context = open();
    if (!context) return failed(problem_);
    // Without it every user could read the secret.
    if (const int result = call_.context_set(context.get(), kMungeOptionOnlyUser, geteuid());
        result != kMungeSuccess)
      return failed(result, context.get());
    if (const int result = set_socket(context.get()); result != kMungeSuccess)
      return failed(result, context.get());
    char* credential = nullptr;
    const int result =
        call_.encode(&credential, context.get(), payload.data(), static_cast<int>(payload.size()));
    const std::unique_ptr<char, FreeMemory> owner(credential);
    if (result != kMungeSuccess) return failed(result, context.get());
    return {boost::system::in_place_value, credential};
  }

  Text decode(const std::string& credential) override {
    const Opened context = open();
    if (!context) return failed(problem_);
    if (const int result = set_socket(context.get()); result != kMungeSuccess)
      return failed(result, context.get());
    void* payload = nullptr;
    int bytes = 0;
    uid_t uid = 0;
    const int result =
        call_.decode(credential.c_str(), context.get(), &payload, &bytes, &uid, nullptr);
    const std::unique_ptr<void, FreeMemory> owner(payload);
    // Clocks differ, a job lasts long, and several agents of a machine read the same credential.
    // That it is this rendezvous's own is proven by the secret in it.
    const bool is_sound = result == kMungeSuccess || result == kMungeExpired ||
                          result == kMungeRewound || result == kMungeReplayed;
    if (result == kMungeUnauthorized) return failed("it belongs to another user's job");
    if (!is_sound) return failed(result, context.get());
    if (uid != geteuid())
      return failed(
          fmt::format("user {} has made its credential, and this is user {}", uid, geteuid()));
    if (payload == nullptr || bytes <= 0) return {boost::system::in_place_value, ""};
    return {boost::system::in_place_value, static_cast<const char*>(payload),
            static_cast<std::size_t>(bytes)};
  }

 private:
  struct Close {
    void (*destroy)(MungeContext*) = nullptr;
    void operator()(MungeContext* context) const { destroy(context); }
  };
  using Opened = std::unique_ptr<MungeContext, Close>;

  static Text failed(std::string why) {
    return {boost::system::in_place_error, proto::CredentialFailure{std::move(why)}};
  }
  /// What a context has to tell names the socket; the plain text does not.
  Text failed(int error, MungeContext* context) {
    const char* const more = call_.context_error(context);
    return {boost::system::in_place_error,
            proto::CredentialFailure{
                fmt::format("MUNGE: {}", more != nullptr ? more : call_.error_text(error)),
                error == kMungeSocket}};
  }

  /// Null: problem_ tells why.
  Opened open() {
    std::call_once(opened_, [this] {
      if (call_.context_create == nullptr) problem_ = open_munge(call_);
    });
    if (!problem_.empty()) return {nullptr, Close{}};
    Opened context(call_.context_create(), Close{call_.context_destroy});
    if (!context) throw std::bad_alloc();
    return context;
  }
  int set_socket(MungeContext* context) {
    return socket_.empty() ? kMungeSuccess
                           : call_.context_set(context, kMungeOptionSocket, socket_.c_str());
  }

  const std::string socket_;
  std::once_flag opened_;
  MungeFunctions call_;
  std::string problem_;  // of the library
};

}  // namespace

std::unique_ptr<proto::Credentials> munge_credentials(std::string socket,
                                                      const MungeFunctions& call) {
  return std::make_unique<Munge>(std::move(socket), call);
}

}  // namespace ddprun::rdzv
