#include "rendezvous/etcd/etcd_client.hpp"

#include <algorithm>
#include <utility>

#include <boost/asio/error.hpp>

#include "rendezvous/etcd/etcd_connection.hpp"
#include "rendezvous/etcd/etcd_json.hpp"

namespace ddprun::rdzv {

using SteadyClock = std::chrono::steady_clock;

EtcdClient::EtcdClient(std::vector<Endpoint> members, std::function<bool()> is_cancelled,
                       EtcdAccess access)
    : members_(std::move(members)),
      is_cancelled_(std::move(is_cancelled)),
      access_(std::move(access)) {}
EtcdClient::~EtcdClient() = default;

EtcdResult<std::string> EtcdClient::post(const char* path, const std::string& body, Limit limit) {
  const SteadyTime end = SteadyClock::now() + limit;
  if (access_.user.empty()) return ask(path, body, end);
  const bool is_new = token_.empty();
  if (is_new) {
    if (const auto done = log_in(end); !done) return done.error();
  }
  auto answer = ask(path, body, end);
  // A token ends when it is not used for some minutes, and when a member starts again.
  const bool is_over = !answer && answer.error().kind == EtcdFault::Kind::needs_user && !is_new;
  if (!is_over) return answer;
  if (const auto done = log_in(end); !done) return done.error();
  return ask(path, body, end);
}

EtcdResult<std::monostate> EtcdClient::log_in(SteadyTime end) {
  token_.clear();
  const auto body =
      ask("/v3/auth/authenticate", etcd_login_body(access_.user, access_.password), end);
  if (!body) return body.error();
  auto token = read_etcd_token(*body);
  if (!token) return token.error();
  token_ = std::move(*token);
  return std::monostate{};
}

/// Every member at most once, but for a kept connection that had ended meanwhile.
EtcdResult<std::string> EtcdClient::ask(const char* path, const std::string& body, SteadyTime end) {
  const EtcdConnection::Request request{path, body, token_};
  EtcdFault fault;
  // A certificate that has been accepted, and is renewed now, is not wrong for ever.
  bool may_trust = !member_host_.empty();
  std::size_t tries = 0;
  while (tries < members_.size()) {
    const Endpoint& member = members_[member_];
    const bool is_kept = connection_ != nullptr;
    const SteadyTime deadline = std::min(end, SteadyClock::now() + kMemberLimit);
    ErrorCode failed;
    if (!is_kept) {
      connection_ = std::make_unique<EtcdConnection>(is_cancelled_, access_);
      failed = connection_->open(member, deadline);
    }
    Result<EtcdConnection::Answer> answer = failed;
    if (!failed) answer = connection_->post(request, deadline);
    if (answer) {
      member_host_ = member.host;
      local_addr_ = connection_->local_addr();
      if (!connection_->is_reusable()) connection_.reset();
      if (answer->status == 200) return std::move(answer->body);
      fault = etcd_fault_of(answer->status, answer->body, to_string(member), access_.words);
      if (!is_of_member(fault)) return fault;
    } else {
      fault = connection_->fault_of(answer.error());
      connection_.reset();
      if (!is_of_member(fault)) return fault;
      const bool has_ended = is_kept && answer.error() != boost::asio::error::timed_out;
      if (has_ended && SteadyClock::now() < end) continue;  // a new connection to the same one
    }
    connection_.reset();
    may_trust = may_trust || fault.kind != EtcdFault::Kind::not_trusted;
    member_ = (member_ + 1) % members_.size();
    ++tries;
    if (SteadyClock::now() >= end || is_cancelled_()) break;
  }
  if (may_trust || tries < members_.size()) fault.kind = EtcdFault::Kind::unreachable;
  return fault;
}

// ---- calls ----

EtcdResult<EtcdPage> EtcdClient::range(const EtcdQuery& query, Limit limit) {
  const auto body = post("/v3/kv/range", etcd_range_body(query), limit);
  if (!body) return body.error();
  return read_etcd_page(*body);
}

EtcdResult<EtcdTxnAnswer> EtcdClient::txn(const EtcdTxn& txn, Limit limit) {
  const auto body = post("/v3/kv/txn", etcd_txn_body(txn), limit);
  if (!body) return body.error();
  return read_etcd_txn(*body, txn.read_otherwise.size());
}

EtcdResult<EtcdGrant> EtcdClient::grant(std::chrono::seconds ttl, Limit limit) {
  const auto body = post("/v3/lease/grant", etcd_grant_body(ttl), limit);
  if (!body) return body.error();
  return read_etcd_grant(*body);
}

EtcdResult<std::chrono::seconds> EtcdClient::keep_alive(EtcdLease lease, Limit limit) {
  const auto body = post("/v3/lease/keepalive", etcd_lease_body(lease), limit);
  if (!body) return body.error();
  return read_etcd_keep_alive(*body);
}

EtcdResult<std::monostate> EtcdClient::revoke(EtcdLease lease, Limit limit) {
  const auto body = post("/v3/lease/revoke", etcd_lease_body(lease), limit);
  if (!body) return body.error();
  return std::monostate{};
}

EtcdResult<std::monostate> EtcdClient::compact(EtcdRevision revision, Limit limit) {
  const auto body = post("/v3/kv/compaction", etcd_compact_body(revision), limit);
  if (!body) return body.error();
  return std::monostate{};
}

}  // namespace ddprun::rdzv
