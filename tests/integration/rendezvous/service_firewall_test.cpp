// A firewall in front of the rendezvous that rejects connections, as iptables does by default: by a
// message of ICMP. It is played behind a network device of a namespace of its own.
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/unique_handle.hpp"
#include "rendezvous/client/service_connection.hpp"
#include "tests/integration/rendezvous/other_user.hpp"
#include "tests/integration/rendezvous/service_agent.hpp"

using namespace ddprun;

namespace {

std::uint16_t checksum(const std::string& bytes) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2)
    sum += static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i]) << 8 |
                                      static_cast<unsigned char>(bytes[i + 1]));
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

void put_checksum(std::string& bytes, std::size_t at) {
  const std::uint16_t sum = checksum(bytes);
  bytes[at] = static_cast<char>(sum >> 8);
  bytes[at + 1] = static_cast<char>(sum & 0xff);
}

/// "Port unreachable", about a packet of IPv4.
std::string rejection_of(const std::string& packet) {
  std::string icmp("\3\3\0\0\0\0\0\0", 8);
  icmp += packet.substr(0, 28);
  put_checksum(icmp, 2);
  std::string ip("\x45\0\0\0\0\1\0\0\x40\1\0\0", 12);
  ip[3] = static_cast<char>(20 + icmp.size());
  ip += packet.substr(16, 4) + packet.substr(12, 4);
  put_checksum(ip, 10);
  return ip + icmp;
}

/// Rejects all packets of TCP to 10.9.9.0/24, in this thread's network namespace.
class Firewall {
 public:
  Firewall() : tun_(open("/dev/net/tun", O_RDWR | O_CLOEXEC)) {
    ifreq request{};
    request.ifr_flags = IFF_TUN | IFF_NO_PI;
    std::strcpy(request.ifr_name, "tun0");
    works = tun_ && ioctl(tun_.get(), TUNSETIFF, &request) == 0 &&
            std::system("ip addr add 10.9.9.1/24 dev tun0 && ip link set tun0 up") == 0;
    if (works) thread_ = std::thread([this] { run(); });
  }
  ~Firewall() {
    stopped_ = true;
    if (thread_.joinable()) thread_.join();
  }
  Firewall(const Firewall&) = delete;
  Firewall& operator=(const Firewall&) = delete;

  bool works = false;

 private:
  void run() {
    while (!stopped_) {
      pollfd waited{tun_.get(), POLLIN, 0};
      std::string packet(2000, '\0');
      if (poll(&waited, 1, 20) != 1) continue;
      const ssize_t length = read(tun_.get(), packet.data(), packet.size());
      const bool is_tcp = length >= 28 && (packet[0] & 0xf0) == 0x40 && packet[9] == 6;
      if (!is_tcp) continue;
      const std::string answer = rejection_of(packet);
      // A rejection that is lost is as on a network: the kernel asks again.
      [[maybe_unused]] const ssize_t written = write(tun_.get(), answer.data(), answer.size());
    }
  }

  const UniqueFd tun_;
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

struct Failure {
  bool is_known = false;
  bool refused = false;
  std::string reason;
};

Failure connect_through_firewall() {
  Failure failure;
  std::thread([&] {  // its network is its own
    if (unshare(CLONE_NEWNET) != 0) return;
    const Firewall firewall;
    if (!firewall.works) return;
    boost::asio::io_context context;
    rdzv::ServicePlace place;
    place.host = "10.9.9.2";
    place.port = 29400;
    rdzv::ServiceConnection connection(context, place,
                                       {[] {},
                                        [&](bool refused, const std::string& reason) {
                                          failure = {true, refused, reason};
                                        },
                                        [](proto::ServiceMessage) {}});
    connection.connect();
    test::run_until(context, [&] { return failure.is_known; });
  })
      .join();
  return failure;
}

}  // namespace

TEST_CASE("a firewall that rejects connections is not taken for a rendezvous that has ended") {
  test::need_root();
  const Failure failure = connect_through_firewall();
  if (!failure.is_known) return test::skip("no network device can be made here");
  CHECK_FALSE(failure.refused);
  CHECK(failure.reason == "a firewall rejects connections");
}
