#include "tests/unit/trainer/layers/layer_device.hpp"
#include "trainer/host/host_device.hpp"

namespace ddprun::trainer::test {

Device& device() {
  static const std::unique_ptr<Device> one = make_host_device();
  return *one;
}

Libraries libraries() { return {}; }

}  // namespace ddprun::trainer::test
