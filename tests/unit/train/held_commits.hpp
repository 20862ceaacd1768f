// SPDX-License-Identifier: Apache-2.0
// Holds up, or makes fail, what commits checkpoints in this test program: its own mkdir, the first
// call of a commit, stands before the C library's.
#pragma once

namespace trireme::test {

// While it lives, commits wait until release(). One at a time.
class HeldCommits {
 public:
  HeldCommits();
  ~HeldCommits();
  HeldCommits(const HeldCommits&) = delete;
  HeldCommits& operator=(const HeldCommits&) = delete;

  // Those that wait and those that come go on; with an error other than 0 they fail with it.
  void release(int error = 0);
};

}  // namespace trireme::test
