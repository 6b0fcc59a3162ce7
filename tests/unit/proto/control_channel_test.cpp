// Both ends of a control connection: hellos, proofs, tags, and what must not get through.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "proto/control_channel.hpp"
#include "proto/error.hpp"
#include "proto/session_messages.hpp"

using namespace ddprun;
using namespace ddprun::proto;

namespace {

ControlChannel::Settings end(Side side, std::string secret = "") {
  ControlChannel::Settings settings;
  settings.side = side;
  settings.hello.kind = "rendezvous";
  settings.hello.version_min = settings.hello.version_max = 1;
  settings.hello.nonce = Nonce{static_cast<std::uint8_t>(side)};
  if (side == Side::client) settings.hello.run_id = "train-7";
  settings.secret = std::move(secret);
  return settings;
}

struct Heard {
  std::vector<std::string> bodies;
  ErrorCode error;
};

/// All that the channel makes of bytes which come in pieces.
Heard hear(ControlChannel& channel, std::string_view bytes, std::size_t piece = 1 << 20) {
  Heard heard;
  while (!heard.error) {
    channel.append(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    while (true) {
      const auto body = channel.next();
      if (!body) heard.error = body.error();
      if (!body || !*body) break;
      heard.bodies.emplace_back(**body);
    }
    if (bytes.empty()) break;
  }
  return heard;
}

struct Pair {
  Pair(ControlChannel::Settings client_end, ControlChannel::Settings service_end)
      : client(std::move(client_end)), service(std::move(service_end)) {}

  /// Until neither has anything to send.
  void talk(std::size_t piece = 1 << 20) {
    while (client.output_bytes() + service.output_bytes() > 0) {
      const Heard up = hear(service, client.take_output(), piece);
      const Heard down = hear(client, service.take_output(), piece);
      at_service.insert(at_service.end(), up.bodies.begin(), up.bodies.end());
      at_client.insert(at_client.end(), down.bodies.begin(), down.bodies.end());
      if (up.error) service_error = up.error;
      if (down.error) client_error = down.error;
    }
  }

  ControlChannel client;
  ControlChannel service;
  std::vector<std::string> at_client;
  std::vector<std::string> at_service;
  ErrorCode client_error;
  ErrorCode service_error;
};

const std::string kKeepAlive = encode(ClientMessage(KeepAlive{1, {}}));

}  // namespace

TEST_CASE("a client without a secret takes that of the service's credential") {
  ControlChannel::Settings service = end(Side::service, "of the credential");
  service.hello.munge = "MUNGE:shown";
  ControlChannel::Settings client = end(Side::client, GENERATE("", "another secret"));
  client.needs_proof = true;
  std::vector<std::string> shown;
  client.secret_of = [&](const std::string& credential) {
    shown.push_back(credential);
    return "of the credential";
  };
  Pair pair(std::move(client), std::move(service));
  pair.talk();
  CHECK(pair.client.is_proven());
  CHECK(pair.service.is_proven());
  CHECK(shown == std::vector<std::string>{"MUNGE:shown"});
}

TEST_CASE("a credential that cannot be read is a missing secret, one of another secret is wrong") {
  ControlChannel::Settings service = end(Side::service, "of the credential");
  service.hello.munge = "MUNGE:shown";
  ControlChannel::Settings client = end(Side::client);
  const bool is_read = GENERATE(true, false);
  client.secret_of = [is_read](const std::string&) { return is_read ? "another secret" : ""; };
  Pair pair(std::move(client), std::move(service));
  pair.talk();
  CHECK_FALSE(pair.client.is_open());
  CHECK_FALSE(pair.service.is_open());
  if (is_read) CHECK(pair.service_error == Errc::not_authentic);
  if (!is_read) CHECK(pair.client_error == Errc::secret_missing);
}

TEST_CASE("two ends without a secret are open after the hellos") {
  const std::size_t piece = GENERATE(1, 7, 1 << 20);
  Pair pair(end(Side::client), end(Side::service));
  pair.talk(piece);
  REQUIRE(pair.client.is_open());
  REQUIRE(pair.service.is_open());
  CHECK_FALSE(pair.client.is_proven());
  REQUIRE(pair.service.peer() != nullptr);
  CHECK(pair.service.peer()->run_id == "train-7");
  CHECK(pair.client.send(kKeepAlive));
  pair.talk(piece);
  CHECK(pair.at_service == std::vector{kKeepAlive});
  // The frame is the body and its length, and nothing else.
  CHECK(pair.client.send(kKeepAlive));
  CHECK(pair.client.output_bytes() == kFrameHeaderBytes + kKeepAlive.size());
}

TEST_CASE("two ends with one secret prove it, and tag every frame") {
  const std::size_t piece = GENERATE(1, 7, 1 << 20);
  Pair pair(end(Side::client, "s"), end(Side::service, "s"));
  pair.talk(piece);
  REQUIRE(pair.client.is_proven());
  REQUIRE(pair.service.is_proven());
  for (int i = 0; i < 3; ++i) CHECK(pair.client.send(kKeepAlive));
  CHECK(pair.client.output_bytes() == 3 * (kFrameHeaderBytes + kKeepAlive.size() + kTagBytes));
  CHECK(pair.service.send("{}"));
  pair.talk(piece);
  CHECK(pair.at_service == std::vector(3, kKeepAlive));
  CHECK(pair.at_client == std::vector<std::string>{"{}"});
}

TEST_CASE("a hello that was changed on the path opens no connection where there is a secret") {
  const bool of_client = GENERATE(true, false);
  const std::string_view change = GENERATE("[1,2]", "[1,9]", "[0,1]");
  ControlChannel client(end(Side::client, "s"));
  ControlChannel service(end(Side::service, "s"));
  std::string up = client.take_output();
  std::string down = service.take_output();
  std::string& changed = of_client ? up : down;
  changed.replace(changed.find("[1,1]"), change.size(), change);
  CHECK_FALSE(hear(service, up).error);
  CHECK_FALSE(hear(client, down).error);
  CHECK(hear(service, client.take_output()).error == Errc::not_authentic);
  CHECK_FALSE(service.is_open());
}

TEST_CASE("a wrong, missing or unwanted secret does not open a connection") {
  SECTION("wrong") {
    Pair pair(end(Side::client, "s"), end(Side::service, "t"));
    pair.talk();
    CHECK(pair.service_error == Errc::not_authentic);
    CHECK_FALSE(pair.client.is_open());
    CHECK_FALSE(pair.service.is_open());
  }
  SECTION("missing at the client") {
    Pair pair(end(Side::client), end(Side::service, "t"));
    pair.talk();
    CHECK(pair.client_error == Errc::secret_missing);
    CHECK_FALSE(pair.service.is_open());
  }
  SECTION("only the client has one: it goes on, unproven") {
    Pair pair(end(Side::client, "s"), end(Side::service));
    pair.talk();
    CHECK(pair.client.is_open());
    CHECK_FALSE(pair.client.is_proven());
  }
  SECTION("only the client has one, and insists on it") {
    auto client = end(Side::client, "s");
    client.needs_proof = true;
    Pair pair(std::move(client), end(Side::service));
    pair.talk();
    CHECK(pair.client_error == Errc::proof_missing);
    CHECK_FALSE(pair.client.is_open());
  }
}

TEST_CASE("a client that proves nothing is not heard") {
  ControlChannel service(end(Side::service, "s"));
  ControlChannel client(end(Side::client));
  const std::string hello = client.take_output();
  const Heard heard = hear(service, hello + encode_frame(kKeepAlive));
  CHECK(heard.error == Errc::malformed);
  CHECK(heard.bodies.empty());
}

TEST_CASE("a service cannot send a client's own proof back to it") {
  ControlChannel client(end(Side::client, "s"));
  // The client's hello, turned into a service's with the client's own nonce.
  auto mirror = end(Side::client);
  mirror.hello.auth = Authentication::hmac;
  Hello hello = mirror.hello;
  static_cast<void>(hear(client, encode_frame(encode_hello(hello))));
  std::string sent = client.take_output();
  FrameParser frames;
  frames.append(sent);
  static_cast<void>(frames.next());
  const auto proof = frames.next();
  REQUIRE(proof.has_value());
  REQUIRE(proof->has_value());
  CHECK(hear(client, encode_frame(**proof)).error == Errc::not_authentic);
  CHECK_FALSE(client.is_open());
}

TEST_CASE("a frame that was changed, repeated or left out ends a proven connection") {
  Pair pair(end(Side::client, "s"), end(Side::service, "s"));
  pair.talk();
  CHECK(pair.client.send(kKeepAlive));
  const std::string first = pair.client.take_output();
  CHECK(pair.client.send(kKeepAlive));
  const std::string second = pair.client.take_output();
  SECTION("changed") {
    std::string changed = first;
    changed[kFrameHeaderBytes + 3] ^= 1;
    CHECK(hear(pair.service, changed).error == Errc::not_authentic);
  }
  SECTION("repeated") { CHECK(hear(pair.service, first + first).error == Errc::not_authentic); }
  SECTION("left out") { CHECK(hear(pair.service, second).error == Errc::not_authentic); }
  SECTION("too short for a tag") {
    CHECK(hear(pair.service, encode_frame("{}")).error == Errc::not_authentic);
  }
}

TEST_CASE("another version, protocol or size is refused") {
  SECTION("a newer version") {
    auto client = end(Side::client);
    client.hello.version_min = client.hello.version_max = 2;
    Pair pair(std::move(client), end(Side::service));
    pair.talk();
    CHECK(pair.service_error == Errc::version_mismatch);
    CHECK(pair.client_error == Errc::version_mismatch);
  }
  SECTION("the job socket's protocol") {
    auto client = end(Side::client);
    client.hello.kind = "job";
    Pair pair(std::move(client), end(Side::service));
    pair.talk();
    CHECK(pair.service_error == Errc::version_mismatch);
  }
  SECTION("a hello without a nonce") {
    ControlChannel service(end(Side::service));
    CHECK(hear(service, encode_frame(R"({"ddprun":"rendezvous","versions":[1,1]})")).error ==
          Errc::malformed);
  }
  SECTION("a large frame before the proof") {
    ControlChannel service(end(Side::service, "s"));
    CHECK(hear(service, std::string("\0\x01\0\0{", 5)).error == Errc::too_large);
  }
  SECTION("a large frame once the channel is open") {
    Pair pair(end(Side::client), end(Side::service));
    pair.talk();
    CHECK(pair.client.send("{\"a\":\"" + std::string(100'000, 'x') + "\"}"));
    pair.talk();
    CHECK(pair.at_service.size() == 1);
    CHECK(hear(pair.service, std::string("\0\x11\0\0{", 5)).error == Errc::too_large);
  }
}

TEST_CASE("a service with several secrets asks for the one of the client's run id") {
  auto service = end(Side::service);
  service.secret_for = [](const std::string& run_id) {
    return std::string(run_id == "train-7" ? "of 7" : run_id == "train-8" ? "of 8" : "");
  };
  SECTION("the right one") {
    Pair pair(end(Side::client, "of 7"), std::move(service));
    pair.talk();
    REQUIRE(pair.service.is_proven());
    REQUIRE(pair.client.is_proven());
    CHECK(pair.client.send(kKeepAlive));
    pair.talk();
    CHECK(pair.at_service == std::vector{kKeepAlive});
  }
  SECTION("that of another run id") {
    Pair pair(end(Side::client, "of 8"), std::move(service));
    pair.talk();
    CHECK(pair.service_error == Errc::not_authentic);
    CHECK_FALSE(pair.service.is_open());
  }
  SECTION("a run id without a secret is as one with another secret") {
    auto client = end(Side::client, GENERATE("of 7", "x"));
    client.hello.run_id = "train-9";
    Pair pair(std::move(client), std::move(service));
    pair.talk();
    CHECK(pair.service_error == Errc::not_authentic);
    CHECK_FALSE(pair.service.is_open());
  }
  SECTION("none") {
    Pair pair(end(Side::client), std::move(service));
    pair.talk();
    CHECK(pair.client_error == Errc::secret_missing);
    CHECK_FALSE(pair.service.is_open());
  }
}

TEST_CASE("a message that is larger than a frame is not sent") {
  const std::string secret = GENERATE("", "s");
  Pair pair(end(Side::client, secret), end(Side::service, secret));
  pair.talk();
  CHECK_FALSE(pair.client.send(std::string(kFrameBytesMax, 'x')));
  CHECK(pair.client.output_bytes() == 0);
  CHECK(pair.client.send(std::string(kFrameBytesMax - kTagBytes, 'x')));
}

TEST_CASE("a channel that has failed stays so") {
  ControlChannel service(end(Side::service));
  CHECK(hear(service, encode_frame("[]")).error);
  ControlChannel client(end(Side::client));
  CHECK(hear(service, client.take_output()).error);
  CHECK_FALSE(service.is_open());
}

TEST_CASE("a service may refuse a client that has proven nothing") {
  Pair pair(end(Side::client, "s"), end(Side::service, "s"));
  const std::string refused = encode(ServiceMessage(Refused{Refused::Why::limit, "full"}));
  static_cast<void>(hear(pair.client, pair.service.take_output()));
  CHECK(pair.service.send(refused));
  const Heard heard = hear(pair.client, pair.service.take_output());
  CHECK(heard.bodies == std::vector{refused});
  CHECK_FALSE(pair.client.is_open());
}
