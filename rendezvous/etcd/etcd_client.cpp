#include "rendezvous/etcd/etcd_client.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include "base/socket.hpp"
#include "rendezvous/client/resolve.hpp"
#include "rendezvous/etcd/etcd_json.hpp"

namespace ddprun::rdzv {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using SteadyClock = std::chrono::steady_clock;
using SteadyTime = SteadyClock::time_point;

namespace {

/// How soon a call notices that it is cancelled.
constexpr std::chrono::milliseconds kSlice{50};

/// Whether the member has sent something that is no HTTP. One that has ended has not.
bool is_other_protocol(const ErrorCode& error) {
  static const auto* const category = &http::make_error_code(http::error::bad_version).category();
  return error.category() == *category && error != http::error::end_of_stream &&
         error != http::error::partial_message;
}

EtcdFault unreachable(const Endpoint& member, const ErrorCode& error) {
  if (is_other_protocol(error))
    return {EtcdFault::Kind::unreachable,
            fmt::format("the program at {} is no etcd (it does not answer in HTTP): check the host "
                        "and the port of --journal",
                        to_string(member))};
  return {EtcdFault::Kind::unreachable,
          fmt::format("etcd at {} cannot be reached: {}", to_string(member), error.message())};
}

}  // namespace

/// To one member. After a fault it is of no more use.
class EtcdClient::Connection {
 public:
  struct Answer {
    unsigned status = 0;
    std::string body;
  };

  explicit Connection(const std::function<bool()>& is_cancelled)
      : is_cancelled_(is_cancelled), socket_(context_) {}

  ErrorCode open(const Endpoint& member, SteadyTime deadline) {
    const auto found = resolve(member.host, *member.port, deadline);
    if (!found) return found.error();
    host_ = to_string(member);
    ErrorCode failed = asio::error::timed_out;
    for (const addrinfo* one = found->get(); one != nullptr; one = one->ai_next) {
      ErrorCode ignored;
      socket_.close(ignored);
      asio::ip::tcp::endpoint addr;
      if (one->ai_addrlen > addr.capacity()) continue;
      std::copy_n(reinterpret_cast<const char*>(one->ai_addr), one->ai_addrlen,
                  reinterpret_cast<char*>(addr.data()));
      addr.resize(one->ai_addrlen);
      failed = wait(deadline, [&](auto done) { socket_.async_connect(addr, done); });
      if (!failed) break;
    }
    if (!failed) send_at_once(socket_.native_handle());
    return failed;
  }

  Result<Answer> post(const char* path, const std::string& body, SteadyTime deadline) {
    http::request<http::string_body> request(http::verb::post, path, 11);
    request.set(http::field::host, host_);
    request.set(http::field::content_type, "application/json");
    request.body() = body;
    request.prepare_payload();
    ErrorCode failed = wait(deadline, [&](auto done) {
      http::async_write(socket_, request, [done](ErrorCode ec, std::size_t) { done(ec); });
    });
    if (failed) return failed;
    http::response_parser<http::string_body> parser;
    parser.body_limit(kEtcdAnswerBytesMax);
    failed = wait(deadline, [&](auto done) {
      http::async_read(socket_, buffer_, parser, [done](ErrorCode ec, std::size_t) { done(ec); });
    });
    if (failed) return failed;
    is_reusable_ = parser.get().keep_alive();
    return Answer{parser.get().result_int(), std::move(parser.get().body())};
  }

  [[nodiscard]] bool is_reusable() const { return is_reusable_; }

 private:
  /// Runs what `begin` begins, until it is done or the time is over.
  template <class Begin>
  ErrorCode wait(SteadyTime deadline, Begin begin) {
    std::optional<ErrorCode> result;
    begin([&result](ErrorCode ec) { result = ec; });
    context_.restart();
    while (!result) {
      const auto now = SteadyClock::now();
      if (now >= deadline || is_cancelled_()) break;
      context_.run_one_until(std::min(deadline, now + kSlice));
    }
    if (result) return *result;
    ErrorCode ignored;
    socket_.close(ignored);  // what was begun ends
    context_.run();
    return asio::error::timed_out;
  }

  const std::function<bool()>& is_cancelled_;
  asio::io_context context_{1};
  asio::ip::tcp::socket socket_;
  boost::beast::flat_buffer buffer_;
  std::string host_;
  bool is_reusable_ = true;
};

EtcdClient::EtcdClient(std::vector<Endpoint> members, std::function<bool()> is_cancelled)
    : members_(std::move(members)), is_cancelled_(std::move(is_cancelled)) {}
EtcdClient::~EtcdClient() = default;

/// Every member at most once, but for a kept connection that had ended meanwhile.
EtcdResult<std::string> EtcdClient::post(const char* path, const std::string& body, Limit limit) {
  const SteadyTime end = SteadyClock::now() + limit;
  EtcdFault fault;
  for (std::size_t tries = 0; tries < members_.size();) {
    const Endpoint& member = members_[member_];
    const bool is_kept = connection_ != nullptr;
    const SteadyTime deadline = std::min(end, SteadyClock::now() + kMemberLimit);
    ErrorCode failed;
    if (!is_kept) {
      connection_ = std::make_unique<Connection>(is_cancelled_);
      failed = connection_->open(member, deadline);
    }
    Result<Connection::Answer> answer = failed;
    if (!failed) answer = connection_->post(path, body, deadline);
    if (answer) {
      if (!connection_->is_reusable()) connection_.reset();
      if (answer->status == 200) return std::move(answer->body);
      fault = etcd_fault_of(answer->status, answer->body, to_string(member));
      if (!may_pass(fault)) return fault;
    } else {
      connection_.reset();
      if (answer.error() == http::error::body_limit)
        return EtcdFault{EtcdFault::Kind::too_large, "the answer is too large"};
      fault = unreachable(member, answer.error());
      const bool has_ended = is_kept && answer.error() != asio::error::timed_out;
      if (has_ended && SteadyClock::now() < end) continue;  // a new connection to the same one
    }
    connection_.reset();
    member_ = (member_ + 1) % members_.size();
    ++tries;
    if (SteadyClock::now() >= end || is_cancelled_()) break;
  }
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
