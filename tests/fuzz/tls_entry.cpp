#include <string>
#include <string_view>

#include "base/assert.hpp"
#include "rendezvous/tls/tls.hpp"
#include "tests/fuzz/entries.hpp"

namespace ddprun::test {
namespace {

constexpr const char* kSecret = "correct horse battery staple";
constexpr std::string_view kSaid = "what the client has said";

const proto::Encrypter* tls() {
  static const auto opened = rdzv::open_tls();
  return opened ? opened->get() : nullptr;
}

void check_strangers_bytes(proto::Encryption& end, std::string_view bytes) {
  std::string plain;
  const std::string_view half = bytes.substr(0, bytes.size() / 2);
  const ErrorCode first = end.decrypt(half, plain);
  const ErrorCode second = end.decrypt(bytes.substr(half.size()), plain);
  DDPRUN_ASSERT(!first || first == second, "an end that has failed does not go on");
  DDPRUN_ASSERT(plain.empty(), "nothing is read from a peer without the secret");
}

/// On the way to the service bytes change: three bytes of `changes` are a distance to the one
/// before and what it is changed by.
void check_changes(std::string_view changes) {
  const auto client = tls()->client(kSecret, "job");
  const auto service = tls()->service([](const std::string&) { return kSecret; });
  client->encrypt(kSaid);
  std::string heard;
  std::string unused;
  bool changed = false;
  ErrorCode failed;
  for (int turn = 0; turn < 4 && !failed; ++turn) {
    std::string up = client->take_output();
    std::size_t at = 0;
    while (changes.size() >= 3) {
      at += static_cast<unsigned char>(changes[0]) * 256U + static_cast<unsigned char>(changes[1]);
      if (at >= up.size()) break;
      up[at] = static_cast<char>(up[at] ^ changes[2]);
      changed = changed || changes[2] != 0;
      changes.remove_prefix(3);
    }
    failed = service->decrypt(up, heard);
    static_cast<void>(client->decrypt(service->take_output(), unused));
  }
  DDPRUN_ASSERT(heard.empty() || heard == kSaid, "what is heard is what was said");
  DDPRUN_ASSERT(changed || heard == kSaid, "what is not changed arrives");
}

}  // namespace

void fuzz_tls(const std::uint8_t* data, std::size_t size) {
  if (size < 1 || tls() == nullptr) return;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 0)
    return check_strangers_bytes(*tls()->service([](const std::string&) { return kSecret; }),
                                 bytes);
  if (data[0] == 1) return check_strangers_bytes(*tls()->client(kSecret, "job"), bytes);
  check_changes(bytes);
}

}  // namespace ddprun::test
