// An agent's connection to the rendezvous service: look up the name, connect, say hello, exchange
// messages. It tries once for each `connect`; when and how often is AgentSession's decision.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/endpoint.hpp"
#include "base/unique_handle.hpp"
#include "proto/session_messages.hpp"
#include "rendezvous/client/credential_reader.hpp"
#include "rendezvous/client/own_service.hpp"
#include "rendezvous/client/resolver.hpp"
#include "rendezvous/client/service_channel.hpp"
#include "rendezvous/client/service_chooser.hpp"
#include "rendezvous/client/service_finder.hpp"
#include "rendezvous/client/store_probe.hpp"

namespace ddprun::rdzv {

struct ServicePlace {
  std::string host;
  std::uint16_t port = 0;
  /// A Unix socket that leads there, through a forwarder: host and port are not asked. Empty: none.
  std::string socket;
  /// Other rdzvd that share a journal with the one at `host`, each with its port: one of them all
  /// has the jobs, and another one may have them later. Each attempt asks them in turn, and is led
  /// by the answers to one of these places only.
  std::vector<Endpoint> more_hosts;
  /// Where it may be as well: tried behind `port`, in this order, until one has the service of that
  /// run id.
  std::vector<std::uint16_t> more_ports;
  std::string run_id;
  std::string secret;  ///< empty: none
  /// A standby is an attempt that failed; else its answer is given to `said`.
  bool follows_standby = true;
  bool needs_proof = false;  ///< talk to no service that has no secret
  /// Read the secret of a service that shows it in a credential, in the place of `secret`. Null:
  /// credentials are not read.
  std::shared_ptr<proto::Credentials> credentials;
  /// Encrypts connections through a network. Null: they are not encrypted.
  std::shared_ptr<const proto::Encrypter> encrypter;
  OwnService* own = nullptr;  ///< asked first; borrowed. Null: the service is elsewhere
  /// Asked at each attempt, in place of host and port; borrowed. Null: these are known. Not with
  /// `own`, `more_hosts` or `more_ports`.
  ServiceFinder* finder = nullptr;
};

class ServiceConnection {
 public:
  /// Called from the context, never from within a call of this class.
  struct Events {
    std::function<void()> connected;
    /// An attempt has failed, or the connection has ended. `refused`: nothing listens there; once
    /// a service has welcomed this agent, "there" is where that one was.
    std::function<void(bool refused, const std::string& reason)> failed;
    std::function<void(proto::ServiceMessage)> said;
  };

  ServiceConnection(boost::asio::io_context& context, ServicePlace place, Events events);
  /// Resets the connection.
  ~ServiceConnection();
  ServiceConnection(const ServiceConnection&) = delete;
  ServiceConnection& operator=(const ServiceConnection&) = delete;

  /// Drops what there is and tries again.
  void connect();
  /// Lost where there is no connection.
  void send(const proto::ClientMessage& message);
  /// Drops the connection so that the service does not take its end for the end of this node.
  void reset();
  /// From now on nothing of the service is heard and nothing reaches it, not even the end of a
  /// connection, as if the network lost it: for faults on purpose. What is sent meanwhile waits, as
  /// TCP would send it again.
  void cut();
  void heal();

  /// The numeric address of this end of the open connection: by it others reach this node. Empty:
  /// there is none.
  [[nodiscard]] std::string local_addr() const;
  /// Where the service is, as it was named to this agent: of the attempt of now.
  [[nodiscard]] const std::string& host() const { return chooser_.host().host; }
  /// The path of the open connection, as base/socket.hpp has it. Empty: it is in this
  /// process.
  [[nodiscard]] std::string path() const;
  /// The connection's; it stays ours. Below 0: there is none.
  [[nodiscard]] int descriptor() const;
  /// As OwnService's.
  [[nodiscard]] std::string why_elsewhere() const {
    return place_.own != nullptr ? place_.own->why_elsewhere() : "";
  }
  /// Why the last credential of a service could not be read. Empty: it was, or there was none.
  [[nodiscard]] const std::string& credential_problem() const { return reader_.problem().reason; }
  /// Whether both sides have proven the secret.
  [[nodiscard]] bool is_proven() const { return channel_ && channel_->is_proven(); }

 private:
  struct Attempt;

  template <class Handler>
  auto while_current(Handler handler);
  void later(std::function<void()> what);

  void ask_finder();
  void try_host();
  void next_host(const std::string& reason);
  void look_up();
  void take_addresses(Result<Addresses> addresses);
  void try_next();
  void established();
  void connect_failed(int error);
  void begin(Result<UniqueFd> connected);
  void begin_channel();

  void await_bytes();
  void read();
  void take(ServiceChannel::Opened& opened);
  void take(ServiceChannel::Broken& broken);
  void take(proto::ServiceMessage& message);
  bool goes_on_after(const proto::Refused& refused);
  void flush();

  void fail(bool refused, const std::string& reason);
  void fail_with_stranger(const std::string& reason);

  boost::asio::io_context& context_;
  const ServicePlace place_;
  const Events events_;
  /// What comes of an older attempt finds another one here.
  std::shared_ptr<Attempt> attempt_;
  ServiceChooser chooser_;
  CredentialReader reader_;
  Resolver resolver_;
  boost::asio::steady_timer hello_timer_;
  boost::asio::steady_timer host_timer_;  // one that does not answer must not hide the others
  std::optional<ServiceChannel> channel_;
  std::optional<StoreProbe> probe_;  // of a stranger, after the attempt
  std::optional<bool> is_store_;     // what it has shown, once
  std::string unsent_;
  bool is_cut_ = false;
  bool connects_at_heal_ = false;
  std::vector<boost::asio::posix::stream_descriptor>
      cut_sockets_;  // their ends must not be seen yet
};

}  // namespace ddprun::rdzv
