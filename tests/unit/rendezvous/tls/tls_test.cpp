// Both ends of an encrypted control connection: the key from the secret, and what must not get
// through.
#include "rendezvous/tls/tls.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <utility>

#include "proto/control_channel.hpp"
#include "proto/error.hpp"
#include "proto/session_messages.hpp"
#include "rendezvous/tls/openssl.hpp"
#include "rendezvous/tls/tls_end.hpp"
#include "tests/support/tls.hpp"
#include "tests/unit/rendezvous/tls/strange_client.hpp"

using namespace ddprun;
using proto::ControlChannel;
using proto::Errc;
using proto::Side;
using test::StrangeClient;
using test::tls;

namespace {

const std::string kSecret = "correct horse battery staple";
constexpr std::size_t kWhole = std::size_t{1} << 24;

/// Two ends and what they have heard.
struct Ends {
  explicit Ends(const std::string& clients, const std::string& services = kSecret)
      : client(tls()->client({"", clients, "train-7"})),
        service(tls()->service([services](const std::string&) { return services; })) {}

  /// Until neither has anything to send.
  void talk(std::size_t piece = kWhole) {
    while (true) {
      const std::string up = client->take_output();
      const std::string down = service->take_output();
      if (up.empty() && down.empty()) return;
      on_wire += up + down;
      pass(up, *service, at_service, service_error, piece);
      pass(down, *client, at_client, client_error, piece);
    }
  }

  static void pass(std::string_view bytes, proto::Encryption& to, std::string& plain,
                   ErrorCode& error, std::size_t piece) {
    while (!bytes.empty() && !error) {
      error = to.decrypt(bytes.substr(0, piece), plain);
      bytes.remove_prefix(std::min(piece, bytes.size()));
    }
  }

  std::unique_ptr<proto::Encryption> client;
  std::unique_ptr<proto::Encryption> service;
  std::string on_wire;
  std::string at_client;
  std::string at_service;
  ErrorCode client_error;
  ErrorCode service_error;
};

ControlChannel::Settings channel_end(Side side, std::unique_ptr<proto::Encryption> encryption) {
  ControlChannel::Settings settings;
  settings.side = side;
  settings.hello = proto::rendezvous_hello(side == Side::client ? "train-7" : "");
  settings.secret = kSecret;
  settings.encryption = std::move(encryption);
  return settings;
}

}  // namespace

TEST_CASE("tls: two ends with one secret read what the other one writes, and nobody else does") {
  const std::size_t piece = GENERATE(std::size_t{1}, std::size_t{7}, kWhole);
  Ends ends(kSecret);
  ends.client->encrypt("a question before the handshake");
  ends.service->encrypt("an answer before the handshake");
  ends.talk(piece);
  CHECK_FALSE(ends.client_error);
  CHECK_FALSE(ends.service_error);
  CHECK(ends.at_service == "a question before the handshake");
  CHECK(ends.at_client == "an answer before the handshake");
  CHECK(ends.service->run_id() == "train-7");
  ends.client->encrypt("more");
  ends.talk(piece);
  CHECK(ends.at_service == "a question before the handshakemore");
  CHECK(ends.on_wire.find("before the handshake") == std::string::npos);
}

TEST_CASE("tls: what is larger than a record arrives whole") {
  Ends ends(kSecret);
  std::string large(3'000'000, 'x');
  large.back() = 'y';
  ends.service->encrypt(large);
  ends.talk();
  CHECK(ends.at_client == large);
}

TEST_CASE("tls: another secret, or none for that job, is refused by both ends in the same way") {
  const std::string services =
      GENERATE(std::string("another secret of some length"), std::string());
  Ends ends(kSecret, services);
  ends.client->encrypt("a question");
  ends.talk();
  CHECK(ends.service_error == Errc::not_authentic);
  CHECK(ends.client_error == Errc::not_authentic);
  CHECK(ends.at_service.empty());
  CHECK(ends.service->run_id() == "train-7");
}

TEST_CASE("tls: a changed byte ends the connection") {
  Ends ends(kSecret);
  ends.talk();
  ends.client->encrypt("leave");
  std::string bytes = ends.client->take_output();
  bytes.back() ^= 1;
  std::string plain;
  CHECK(ends.service->decrypt(bytes, plain) == Errc::not_authentic);
  CHECK(plain.empty());
  CHECK(ends.service->decrypt(bytes, plain) == Errc::not_authentic);
}

TEST_CASE("tls: a peer that has said its last word is not listened to") {
  const auto service = tls()->service([](const std::string&) { return kSecret; });
  StrangeClient client(kSecret, "ddprun train-7");
  std::string plain;
  REQUIRE_FALSE(client.talk_to(*service, plain));
  REQUIRE(client.say("a question") > 0);
  REQUIRE_FALSE(client.talk_to(*service, plain));
  CHECK(plain == "a question");
  client.end();
  REQUIRE_FALSE(client.talk_to(*service, plain));
  for (int i = 0; i < 100; ++i) CHECK_FALSE(service->decrypt(std::string(100'000, 'x'), plain));
  CHECK(plain == "a question");
  CHECK(dynamic_cast<const rdzv::TlsEnd&>(*service).held_bytes() == 0);
}

TEST_CASE("tls: an identity that is none of ours has no key") {
  const std::string identity =
      GENERATE(std::string("train-7"), std::string("ddpru"), "ddprun " + std::string(2'000, 'x'));
  const auto service = tls()->service([](const std::string&) { return kSecret; });
  StrangeClient client(kSecret, identity);
  std::string plain;
  CHECK(client.talk_to(*service, plain) == Errc::malformed);
  CHECK(service->run_id().empty());
}

TEST_CASE("tls: a key of one job does not open the channel of another job") {
  const auto secret_for = [](const std::string& run_id) { return "the secret of " + run_id; };
  auto clients = channel_end(Side::client, tls()->client({"", secret_for("mine"), "mine"}));
  clients.secret = secret_for("mine");  // and its hello names train-7
  auto services = channel_end(Side::service, tls()->service(secret_for));
  services.secret_for = secret_for;
  ControlChannel client(std::move(clients));
  ControlChannel service(std::move(services));
  ErrorCode error;
  for (int turn = 0; turn < 8 && !error; ++turn) {
    service.append(client.take_output());
    if (const auto body = service.next(); !body) error = body.error();
    client.append(service.take_output());
    static_cast<void>(client.next());
  }
  CHECK(error == Errc::not_authentic);
  CHECK_FALSE(service.is_open());
}

TEST_CASE("tls: the other end's plain hello is told from another program's words") {
  Ends ends(kSecret);
  std::string plain;
  const std::string hello = proto::encode_frame(proto::encode_hello(proto::rendezvous_hello()));
  CHECK(ends.client->decrypt(hello, plain) == Errc::not_encrypted);
  Ends others(kSecret);
  CHECK(others.client->decrypt("HTTP/1.1 400 Bad Request\r\n", plain) == Errc::malformed);
  CHECK(plain.empty());
}

TEST_CASE("tls: a client that knows nothing of our key is malformed, and so is noise") {
  Ends ends(kSecret);
  std::string plain;
  // A handshake record with a message that is none.
  CHECK(ends.service->decrypt(std::string("\x16\x03\x01\0\4\1\0\0\0", 9), plain) ==
        Errc::malformed);
  CHECK(ends.service->run_id().empty());
  CHECK_FALSE(ends.service->take_output().empty());  // an alert
}

TEST_CASE("tls: a control channel goes through it, with its hellos and proofs") {
  Ends ends(kSecret);
  ControlChannel client(channel_end(Side::client, std::move(ends.client)));
  ControlChannel service(channel_end(Side::service, std::move(ends.service)));
  std::string on_wire;
  std::string heard;
  for (int turn = 0; turn < 8; ++turn) {
    const std::string up = client.take_output();
    service.append(up);
    auto at_service = service.next();
    REQUIRE(at_service.has_value());
    if (*at_service) heard = **at_service;
    const std::string down = service.take_output();
    client.append(down);
    REQUIRE(client.next().has_value());
    on_wire += up + down;
    if (turn == 5) REQUIRE(client.send("{\"keep_alive\":1}"));
  }
  CHECK(client.is_proven());
  CHECK(service.is_proven());
  CHECK(heard == "{\"keep_alive\":1}");
  CHECK(on_wire.find("keep_alive") == std::string::npos);
  CHECK(on_wire.find("nonce") == std::string::npos);
  REQUIRE(service.claimed_run_id() != nullptr);
  CHECK(*service.claimed_run_id() == "train-7");
}

TEST_CASE("tls: a library that is missing or is not OpenSSL is named") {
  const auto missing = rdzv::openssl::open_library("libssl-that-is-not-here.so");
  REQUIRE_FALSE(missing.has_value());
  CHECK_THAT(missing.error(), Catch::Matchers::Contains("libssl-that-is-not-here.so"));
  const auto other = rdzv::openssl::open_library("libc.so.6");
  REQUIRE_FALSE(other.has_value());
  CHECK_THAT(other.error(), Catch::Matchers::Contains("libc.so.6 has no OpenSSL_version_num"));
}
