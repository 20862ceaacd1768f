// SPDX-License-Identifier: Apache-2.0
#include "comm/node_memory.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <string>

#include "ranks.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

class NodeMemory : public testing::EveryKind {};
TRIREME_EVERY_KIND(NodeMemory);

TEST_P(NodeMemory, AllRanksSeeWhatRankZeroWrote) {
  on_every_rank([](Communicator& node) {
    int calls = 0;
    const auto shared = share_on_node(node, [&](NodeWriter& writer) {
      ++calls;
      const auto start = writer.resize(1000);
      std::fill(start.begin(), start.end(), std::byte{7});
      const auto all = writer.resize(5 << 20);  // keeps what was written
      all.back() = std::byte{9};
    });
    EXPECT_EQ(calls, node.rank() == 0 ? 1 : 0);
    const auto bytes = shared->bytes();
    ASSERT_EQ(bytes.size(), std::size_t{5 << 20});
    EXPECT_EQ(bytes[999], std::byte{7});
    EXPECT_EQ(bytes[1000], std::byte{0});
    EXPECT_EQ(bytes.back(), std::byte{9});
  });
}

TEST_P(NodeMemory, NothingIsAllowed) {
  on_every_rank([](Communicator& node) {
    EXPECT_TRUE(share_on_node(node, [](NodeWriter&) {})->bytes().empty());
    EXPECT_TRUE(
        share_on_node(node, [](NodeWriter& w) { w.resize(10), w.resize(0); })->bytes().empty());
  });
}

TEST_P(NodeMemory, AFailingFillReachesEveryRankWithItsText) {
  on_every_rank([](Communicator& node) {
    try {
      share_on_node(node, [](NodeWriter& writer) {
        writer.resize(100);
        throw DataError("labels.gz: truncated at byte 17");
      });
      ADD_FAILURE() << "no error on rank " << node.rank();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kData);
      EXPECT_NE(std::string(error.what()).find("labels.gz: truncated at byte 17"),
                std::string::npos);
    }
    node.barrier();  // the group is still in step
  });
}

// Should the code under test ask the kernel after all, the limit stops it before it eats the
// machine's memory and gets other processes killed.
class FileSizeLimit {
 public:
  FileSizeLimit() {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    rlimit limit = before_;
    limit.rlim_cur = 64 << 20;
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
  }
  ~FileSizeLimit() {
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before_), 0);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_ = {};
  void (*handler_)(int) = SIG_DFL;
};

TEST_P(NodeMemory, MoreThanTheMachineHasIsAnErrorOfTheSizeBeforeAnyIsTaken) {
  const FileSizeLimit limit;
  on_every_rank([](Communicator& node) {
    try {
      share_on_node(node, [](NodeWriter& writer) { writer.resize(std::size_t{1} << 62); });
      ADD_FAILURE() << "no error on rank " << node.rank();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kCommunication);
      EXPECT_NE(std::string(error.what()).find("4611686018427387904 bytes: the machine has"),
                std::string::npos)
          << error.what();
    }
  });
}

}  // namespace
}  // namespace trireme
