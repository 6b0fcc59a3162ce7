#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "base/assert.hpp"
#include "rendezvous/tls/tls.hpp"
#include "tests/fuzz/entries.hpp"

namespace ddprun::test {
namespace {

constexpr const char* kSecret = "correct horse battery staple";
constexpr std::string_view kSaid = "what the client has said";

// Self-signed, for the host "fuzz", until 2099.
constexpr std::string_view kCertificate =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBUzCB+qADAgECAhQObjjem78QwyVJtGdpr9XgfG4tNTAKBggqhkjOPQQDAjAP\n"
    "MQ0wCwYDVQQDDARmdXp6MCAXDTIwMDEwMTAwMDAwMFoYDzIwOTkxMjMxMjM1OTU5\n"
    "WjAPMQ0wCwYDVQQDDARmdXp6MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE7kD/\n"
    "HPYBnvdd0QmY+HtQTfD4ES1iUcp09AwM2h0uxs9ZNhjCL+TcKwpJMSwWTUwQD9YP\n"
    "2RmcKM4nRlB0SghOU6MyMDAwDwYDVR0RBAgwBoIEZnV6ejAdBgNVHQ4EFgQUeqRy\n"
    "7z6QPujvyknNgbI1cgZo5aUwCgYIKoZIzj0EAwIDSAAwRQIhALMfJqNdMvqVXLk8\n"
    "Pp1ZYuAprsi6YA58NqufOYwSNVfHAiA+OrsF5jXVpBtCVN44jbNmYESBCYRUTaiu\n"
    "BmHyGHb1Yw==\n"
    "-----END CERTIFICATE-----\n";
constexpr std::string_view kKey =
    "-----BEGIN PRIVATE KEY-----\n"
    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgrL0wxgguaIkRWpE6\n"
    "aUuXBD1/khedcMcGKW5JdTydhzGhRANCAATuQP8c9gGe913RCZj4e1BN8PgRLWJR\n"
    "ynT0DAzaHS7Gz1k2GMIv5NwrCkkxLBZNTBAP1g/ZGZwozidGUHRKCE5T\n"
    "-----END PRIVATE KEY-----\n";

const proto::Encrypter* tls() {
  static const auto opened = rdzv::open_tls();
  return opened ? opened->get() : nullptr;
}

/// A file in memory, which stays open.
std::string file_with(std::string_view text) {
  const int fd = memfd_create("pem", 0);
  DDPRUN_ASSERT(write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()),
                "the file has the text");
  return "/proc/self/fd/" + std::to_string(fd);
}

/// Both ends have a certificate, and ask for one.
const proto::Encrypter* certificates() {
  static const auto opened = [] {
    rdzv::CertificateSettings settings;
    settings.authorities = settings.certificate = {"--certificate", file_with(kCertificate)};
    settings.key = {"--key", file_with(kKey)};
    return rdzv::open_tls(settings);
  }();
  DDPRUN_ASSERT(opened.has_value(), "the certificate can be used");
  return opened->encrypter.get();
}

std::unique_ptr<proto::Encryption> client_of(const proto::Encrypter& encrypter) {
  return encrypter.client({"fuzz", kSecret, "job"});
}
std::unique_ptr<proto::Encryption> service_of(const proto::Encrypter& encrypter) {
  return encrypter.service([](const std::string&) { return kSecret; });
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
void check_changes(const proto::Encrypter& encrypter, std::string_view changes) {
  const auto client = client_of(encrypter);
  const auto service = service_of(encrypter);
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
  switch (data[0]) {
    case 0:
      return check_strangers_bytes(*service_of(*tls()), bytes);
    case 1:
      return check_strangers_bytes(*client_of(*tls()), bytes);
    case 3:
      return check_strangers_bytes(*service_of(*certificates()), bytes);
    case 4:
      return check_strangers_bytes(*client_of(*certificates()), bytes);
    case 5:
      return check_changes(*certificates(), bytes);
    default:
      return check_changes(*tls(), bytes);
  }
}

}  // namespace ddprun::test
