// Byte streams that are random, or known requests with random changes, over real connections: the
// store stays up, its memory stays bounded, and other clients get their answers.
// DDPRUN_STREAMS is the number of streams; a million takes some minutes under the sanitizers.
#include <malloc.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/fuzz/mutation.hpp"
#include "tests/integration/rendezvous/served.hpp"

#ifdef __SANITIZE_ADDRESS__
// Declared in sanitizer/allocator_interface.h, which not every compiler package has.
extern "C" std::size_t __sanitizer_get_current_allocated_bytes();
#endif

using namespace ddprun::rdzv;
using namespace ddprun::test;
using ddprun::UniqueFd;

namespace {

constexpr std::size_t kStreams = 20000;
constexpr std::size_t kStreamsOfOneServer = 5000;
constexpr std::size_t kOpenStreamsMax = 32;  ///< left open, waiting or half sent, at a time
constexpr std::size_t kMemoryMax = 64u << 20;

std::size_t allocated_bytes() {
#ifdef __SANITIZE_ADDRESS__
  return __sanitizer_get_current_allocated_bytes();
#else
  return mallinfo2().uordblks;
#endif
}

/// Small, so that streams of a few hundred bytes reach them.
StoreSettings small_settings() {
  StoreSettings settings;
  settings.request = {.key_bytes_max = 32,
                      .value_bytes_max = 128,
                      .list_elements_max = 8,
                      .request_bytes_max = 600};
  settings.waited_keys_max = 12;
  settings.reply_backlog_bytes_max = 4096;
  settings.on_warning = [](const std::string&) {};
  return settings;
}

/// Inputs of the fuzzer without its first two bytes, and half of them behind a handshake.
std::vector<std::string> known_streams() {
  std::vector<std::string> streams;
  for (const std::string& input : corpus(DDPRUN_C10D_CORPUS)) {
    if (input.size() > 2) streams.push_back(input.substr(2));
    streams.push_back(kHello + (input.size() > 2 ? input.substr(2) : ""));
  }
  return streams;
}

UniqueFd connect_to(std::uint16_t port, std::size_t number) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  // Many addresses of our own: closed connections keep their ports for a minute.
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
  sockaddr_in addr{};
  addr.sin_family = AF_INET;
  addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + static_cast<std::uint32_t>(number % 200));
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&addr), sizeof addr) != 0) return {};
  addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  addr.sin_port = htons(port);
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&addr), sizeof addr) != 0) return {};
  return fd;
}

/// Sends the stream in up to three pieces, says that nothing follows, and reads until the store has
/// served and closed it. False: it did not within 20 s.
bool finish_stream(const UniqueFd& fd, std::string_view bytes, Mutator& random) {
  const timeval limit{20, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  while (!bytes.empty()) {
    const std::size_t piece = random.below(2) == 0 ? bytes.size() : 1 + random.below(bytes.size());
    if (send(fd.get(), bytes.data(), piece, MSG_NOSIGNAL) < 0) return true;  // closed already
    bytes.remove_prefix(piece);
  }
  shutdown(fd.get(), SHUT_WR);
  char reply[4096];
  ssize_t length = 0;
  while ((length = recv(fd.get(), reply, sizeof reply, 0)) > 0) {
  }
  return length == 0 || errno != EAGAIN;
}

}  // namespace

TEST_CASE(
    "any byte streams leave the store up and its memory bounded and its other clients served") {
  const std::size_t streams = run_length("DDPRUN_STREAMS", kStreams);
  Mutator random(known_streams(), 7);
  std::size_t sent = 0;
  std::size_t refused = 0;
  std::size_t after_first_server = 0;
  while (sent < streams) {
    {
      auto server = StoreServer::start(listener(), small_settings()).value();
      auto good = StoreClient::connect(server.addr(), server.port(), soon());
      REQUIRE(good.has_value());
      std::int64_t asked = 0;
      std::vector<UniqueFd> open(kOpenStreamsMax);
      for (std::size_t i = 0; i < kStreamsOfOneServer && sent < streams; ++i, ++sent) {
        UniqueFd fd = connect_to(server.port(), sent);
        REQUIRE(fd);
        const std::string bytes = random.next();
        if (random.below(16) == 0) {  // stays for a while, and ends with a reset
          [[maybe_unused]] const auto taken =
              send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
          const linger hard{1, 0};
          setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
          open[random.below(open.size())] = std::move(fd);
        } else if (!finish_stream(fd, bytes, random)) {
          FAIL("stream " << sent << " was neither answered nor closed: " << to_hex(bytes));
        }
        if (i % 100 != 0) continue;
        // A name that no stream hits by chance.
        const auto sum = good->add("good client's counter, 31 byte", 1, soon());
        REQUIRE(sum.has_value());
        REQUIRE(*sum == ++asked);
        REQUIRE(allocated_bytes() < kMemoryMax);
      }
      refused += server.counters().refused_clients;
    }
    if (after_first_server == 0) after_first_server = allocated_bytes();
  }
  CHECK(refused > streams / 4);
  CHECK(allocated_bytes() < after_first_server + (256u << 10));  // nothing outlives its server
}
