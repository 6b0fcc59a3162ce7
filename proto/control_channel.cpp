#include "proto/control_channel.hpp"

#include <utility>

#include <sodium.h>

#include "base/assert.hpp"
#include "proto/credentials.hpp"
#include "proto/error.hpp"
#include "proto/session_messages.hpp"

namespace ddprun::proto {
namespace {

constexpr int kVersion = 1;

}  // namespace

Hello rendezvous_hello(std::string run_id) {
  Hello hello{"rendezvous", kVersion, kVersion, {}};
  randombytes_buf(hello.nonce.emplace().data(), sizeof(Nonce));
  hello.run_id = std::move(run_id);
  return hello;
}

ControlChannel::ControlChannel(Settings settings) : settings_(std::move(settings)) {
  DDPRUN_ASSERT(settings_.hello.nonce.has_value(), "every connection has its own nonce");
  const bool has_secret = settings_.secret_for || !settings_.secret.empty();
  const bool asks = settings_.side == Side::service && has_secret;
  settings_.hello.auth = asks ? Authentication::hmac : Authentication::none;
  const std::string hello = encode_hello(settings_.hello);
  hello_of(settings_.side) = hash_of_hello(hello);
  append_frame(hello);
}

void ControlChannel::append(std::string_view bytes) {
  if (!settings_.encryption) return parser_.append(bytes);
  if (undecryptable_) return;
  std::string plain;
  undecryptable_ = settings_.encryption->decrypt(bytes, plain);
  parser_.append(plain);
}

std::string ControlChannel::take_output() {
  std::string frames = std::exchange(output_, {});
  if (!settings_.encryption) return frames;
  if (!frames.empty()) settings_.encryption->encrypt(frames);
  return settings_.encryption->take_output();
}

const std::string* ControlChannel::claimed_run_id() const {
  if (peer_) return &peer_->run_id;
  if (!settings_.encryption || settings_.encryption->run_id().empty()) return nullptr;
  return &settings_.encryption->run_id();
}

std::string ControlChannel::why(const ErrorCode& error) const {
  const bool has_problem = settings_.encryption && !settings_.encryption->problem().empty();
  return has_problem ? settings_.encryption->problem() : error.message();
}

Result<std::optional<std::string_view>> ControlChannel::next() {
  while (stage_ != Stage::failed) {
    auto frame = parser_.next_view();
    if (!frame) return frame.error();
    if (!*frame && undecryptable_) return undecryptable_;
    if (!*frame) return std::optional<std::string_view>();
    if (stage_ == Stage::open) {
      if (!incoming_) return *frame;
      const auto body = incoming_->open(**frame);
      if (!body) return body.error();
      return std::optional(*body);
    }
    if (stage_ == Stage::proof) {
      auto refused = take_proof(**frame);
      if (!refused || *refused) return refused;
    } else if (const ErrorCode ec = take_hello(**frame)) {
      stage_ = Stage::failed;
      return ec;
    }
  }
  return make_error_code(Errc::malformed);
}

ErrorCode ControlChannel::take_hello(std::string_view body) {
  auto hello = decode_hello(body);
  if (!hello) return hello.error();
  peer_ = std::move(*hello);
  hello_of(settings_.side == Side::service ? Side::client : Side::service) = hash_of_hello(body);
  if (const auto version = agree_on_version(settings_.hello, *peer_); !version)
    return version.error();
  if (!peer_->nonce) return make_error_code(Errc::malformed);
  const bool is_service = settings_.side == Side::service;
  const bool proofs = (is_service ? settings_.hello : *peer_).auth == Authentication::hmac;
  if (!proofs) {
    if (!is_service && settings_.needs_proof) return make_error_code(Errc::proof_missing);
    open_channel();
    return {};
  }
  if (settings_.secret_for) {
    // A peer is not to learn from the answer for which run ids there are secrets.
    settings_.secret = settings_.secret_for(peer_->run_id);
    if (settings_.secret.empty()) settings_.secret = new_secret();
  }
  if (!is_service && settings_.secret_of && !peer_->munge.empty())
    settings_.secret = settings_.secret_of(peer_->munge);
  if (settings_.secret.empty()) return make_error_code(Errc::secret_missing);
  // The service proves itself only to a peer that has done so.
  if (!is_service) send_proof();
  stage_ = Stage::proof;
  return {};
}

/// A body: the service's refusal.
Result<std::optional<std::string_view>> ControlChannel::take_proof(std::string_view body) {
  std::optional<Proof> given;
  if (settings_.side == Side::service) {
    const auto message = decode_client_message(body);
    const auto* prove = message ? std::get_if<Prove>(&*message) : nullptr;
    if (prove != nullptr) given = prove->proof;
  } else {
    const auto message = decode_service_message(body);
    if (message && std::holds_alternative<Refused>(*message)) return std::optional(body);
    const auto* prove = message ? std::get_if<Prove>(&*message) : nullptr;
    if (prove != nullptr) given = prove->proof;
  }
  const Side from = settings_.side == Side::service ? Side::client : Side::service;
  if (!given || !is_same(*given, proof(settings_.secret, from, handshake_))) {
    stage_ = Stage::failed;
    return make_error_code(given ? Errc::not_authentic : Errc::malformed);
  }
  if (settings_.side == Side::service) send_proof();
  const SessionKey key = session_key(settings_.secret, handshake_);
  outgoing_.emplace(key, settings_.side);
  incoming_.emplace(key, from);
  open_channel();
  return std::optional<std::string_view>();
}

void ControlChannel::send_proof() {
  const Prove prove{proof(settings_.secret, settings_.side, handshake_)};
  append_frame(settings_.side == Side::client ? encode(ClientMessage(prove))
                                              : encode(ServiceMessage(prove)));
}

void ControlChannel::open_channel() {
  stage_ = Stage::open;
  parser_.allow(kFrameBytesMax);
}

bool ControlChannel::send(std::string_view body) {
  if (body.size() + kTagBytes > kFrameBytesMax) return false;
  append_frame(outgoing_ ? outgoing_->seal(body) : std::string(body));
  return true;
}

}  // namespace ddprun::proto
