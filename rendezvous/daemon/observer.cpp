#include "rendezvous/daemon/observer.hpp"

#include <utility>
#include <variant>

#include <fmt/format.h>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/describe.hpp"
#include "base/exit_codes.hpp"
#include "base/printable.hpp"
#include "proto/session_messages.hpp"
#include "rendezvous/client/service_connection.hpp"
#include "rendezvous/daemon/status_text.hpp"
#include "rendezvous/munge/munge.hpp"
#include "rendezvous/store/port_owner.hpp"

namespace ddprun::rdzv {
namespace {

using proto::Refused;

ServicePlace place_of(const ObserverOptions& options) {
  ServicePlace place;
  place.host = options.endpoint.host;
  place.port = *options.endpoint.port;
  place.run_id = options.run_id;
  place.secret = options.secret;
  place.encrypter = options.encrypter;
  // The secret of the user's other jobs must not stand in the way of one that has MUNGE.
  if (!options.secret_is_named) place.credentials = munge_credentials("");
  place.follows_standby = false;
  return place;
}

/// One question and its answer, which may have many pages. An observer has no session: it sends no
/// Resume.
class Observer {
 public:
  explicit Observer(const ObserverOptions& options)
      : options_(options),
        where_(to_string(options.endpoint)),
        timer_(context_),
        connection_(context_, place_of(options), events()) {}

  Observation run(std::chrono::milliseconds limit) {
    timer_.expires_after(limit);
    timer_.async_wait([this, limit](ErrorCode ec) {
      if (!ec) no_answer("no answer within " + describe(limit));
    });
    connection_.connect();
    context_.run();
    return std::move(result_);
  }

 private:
  ServiceConnection::Events events() {
    ServiceConnection::Events events;
    events.connected = [this] { ask(); };
    events.failed = [this](bool refused, const std::string& reason) {
      if (refused)
        return end(kExitNoRound, fmt::format("nothing listens at {}: start rdzvd there, or name "
                                             "the rendezvous with --endpoint=HOST:PORT",
                                             where_));
      if (!connection_.credential_problem().empty())
        return end(kExitNoRound, "the rendezvous at " + where_ + ": " + reason);
      no_answer(reason);
    };
    events.said = [this](proto::ServiceMessage message) {
      if (auto* status = std::get_if<proto::Status>(&message)) take(*status);
      if (const auto* refused = std::get_if<Refused>(&message)) take(*refused);
    };
    return events;
  }

  void ask() {
    if (options_.fence.empty()) return connection_.send(proto::StatusRequest{});
    connection_.send(proto::Fence{options_.fence});
  }

  void take(proto::Status& page) {
    if (options_.json) json_ += proto::encode(proto::ServiceMessage(page)) + "\n";
    const auto next = page.next;
    append_page(status_, std::move(page));
    // Pages come in order, so that they come to an end.
    if (next && (!asked_ || *next > *asked_)) {
      asked_ = next;
      return connection_.send(proto::StatusRequest{*next});
    }
    show(status_);
  }

  void show(const proto::Status& status) {
    if (!names_many(options_.run_id) && status.jobs.empty())
      return end(kExitNoJob,
                 fmt::format("there is no job '{}' at {}; rdzvd --status without --run-id shows "
                             "those that are",
                             options_.run_id, where_));
    if (options_.json) return end(0, std::move(json_));
    std::string text = status_text(status, where_);
    if (!options_.fence.empty())
      text = fmt::format("gave up the node {} of job {}: its session is lost\n",
                         printable(options_.fence), printable(options_.run_id)) +
             text;
    end(0, std::move(text));
  }

  void take(const Refused& refused) {
    const std::string at = "the rendezvous at " + where_;
    if (refused.why == Refused::Why::wrong_secret && !connection_.credential_problem().empty())
      return end(kExitNoRound, at + ": " + refused.reason);
    if (refused.why == Refused::Why::wrong_secret && options_.secret.empty())
      return end(kExitNoRound,
                 at + " asks for a secret: copy its file here and name it with --secret-file");
    if (refused.why == Refused::Why::wrong_secret)
      return end(kExitNoRound,
                 fmt::format("{} has another secret than {}: name a copy of its file with "
                             "--secret-file{}",
                             at, options_.secret_file,
                             options_.run_id.empty()
                                 ? "; if it has a secret for each tenant, also name the jobs, with "
                                   "--run-id=ID or --run-id='PREFIX*'"
                                 : ""));
    if (refused.why == Refused::Why::certificate)
      return end(kExitNoRound, at + " cannot be asked: " + refused.reason);
    if (refused.why == Refused::Why::encryption)
      return end(kExitNoRound,
                 at + (options_.encrypter
                           ? " does not encrypt: leave out --tls"
                           : " encrypts: add --tls, or --tls-ca=FILE if it has a certificate"));
    if (refused.why == Refused::Why::elsewhere)
      return end(kExitNoRound, where_ + ": " + refused.reason);
    const bool is_answer =
        refused.why == Refused::Why::no_fence || refused.why == Refused::Why::other_job;
    end(is_answer ? kExitNoJob : kExitNoRound, at + ": " + refused.reason);
  }

  void no_answer(const std::string& reason) {
    // Which program has the port can be found out on this machine only.
    const auto owner =
        is_loopback(options_.endpoint.host) ? port_owner(*options_.endpoint.port) : std::nullopt;
    end(kExitNoRound, fmt::format("no rendezvous answers at {}: {}{}", where_, reason,
                                  owner ? fmt::format(" (the port is in use by {})", *owner) : ""));
  }

  /// The first end counts.
  void end(int code, std::string text) {
    if (context_.stopped()) return;
    if (code != 0) text = fmt::format("rdzvd: {}\n", printable(text));
    result_ = {code, std::move(text)};
    context_.stop();
  }

  const ObserverOptions& options_;
  const std::string where_;
  boost::asio::io_context context_{1};
  boost::asio::steady_timer timer_;
  ServiceConnection connection_;
  proto::Status status_;                     // of all pages so far
  std::string json_;                         // these, one a line
  std::optional<proto::StatusPlace> asked_;  // where the last page begins
  Observation result_;
};

}  // namespace

Observation observe(const ObserverOptions& options, std::chrono::milliseconds limit) {
  return Observer(options).run(limit);
}

}  // namespace ddprun::rdzv
