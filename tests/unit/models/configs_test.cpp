// SPDX-License-Identifier: Apache-2.0
// The shipped configurations are read strictly, and their models and parameter groups fit each
// other.
#include <gtest/gtest.h>

#include "config/read.hpp"
#include "optim/optimizer.hpp"
#include "support.hpp"
#include "support/training.hpp"

namespace trireme::test {
namespace {

struct Shipped {
  const char* file;
  DatasetSpec data;  // of the data set that it names
  std::int64_t num_trained;
};

class ShippedConfiguration : public ::testing::TestWithParam<Shipped> {};

TEST_P(ShippedConfiguration, FitsItsModel) {
  const std::string path = std::string(TRIREME_SOURCE_DIR) + "/configs/" + GetParam().file;
  const Config config = config_of(read_config_text(path));
  const auto model = make_model(config.model.name, GetParam().data, config.model.options.values());
  EXPECT_EQ(num_trained(*model), GetParam().num_trained);
  std::vector<std::string> names;
  std::vector<std::vector<std::int64_t>> shapes;
  for (const auto& item : model->named_parameters()) {
    names.push_back(item.key());
    shapes.push_back(item.value().sizes().vec());
  }
  EXPECT_EQ(resolve_groups(config.optimizer, names, shapes).groups.size(),
            config.optimizer.groups.size() + 1);
}

INSTANTIATE_TEST_SUITE_P(Configs, ShippedConfiguration,
                         ::testing::Values(Shipped{"cifar.yaml", images(3, 32, 10), 1971352},
                                           Shipped{"fashion_mnist.yaml", images(1, 28, 10), 104426},
                                           Shipped{"gpt_char.yaml", tokens(128, 256), 875264},
                                           Shipped{"mlp.yaml", images(1, 8, 10), 8970}),
                         [](const auto& instance) {
                           const std::string file = instance.param.file;
                           return file.substr(0, file.find('.'));
                         });

TEST(CifarConfiguration, GivesEachPartOfTheNetworkItsRule) {
  const Config config =
      config_of(read_config_text(std::string(TRIREME_SOURCE_DIR) + "/configs/cifar.yaml"));
  const ResolvedGroups resolved =
      resolve_groups(config.optimizer,
                     {"whiten.bias", "groups.0.conv1.weight", "groups.2.norm2.bias", "head.weight"},
                     {{24}, {64, 24, 3, 3}, {256}, {10, 256}});
  const auto group = [&](std::size_t parameter) {
    return resolved.groups[static_cast<std::size_t>(resolved.group_of[parameter])];
  };
  EXPECT_EQ(group(0).duration, 3);
  EXPECT_EQ(group(1).settings.name, "muon");
  EXPECT_EQ(group(2).settings.name, "sgd");
  for (const std::size_t parameter : {0, 2, 3}) {
    const OptimizerConfig& settings = group(parameter).settings;
    EXPECT_DOUBLE_EQ(settings.lr * settings.weight_decay, 2e-6 * 2000);
  }
}

}  // namespace
}  // namespace trireme::test
