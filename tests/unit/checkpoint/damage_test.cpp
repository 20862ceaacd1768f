// SPDX-License-Identifier: Apache-2.0
// Files that are not what a reader expects: each is refused, with a message that says what is
// wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "checkpoint/archive.hpp"
#include "checkpoint/manifest.hpp"
#include "support/temporary_directory.hpp"
#include "trireme/error.hpp"
#include "unit/checkpoint/sample.hpp"

namespace trireme::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class Damage : public ::testing::Test {
 protected:
  fs::path directory() const { return root_.path() / "step-00000007"; }
  fs::path model() const { return directory() / "model.h5"; }
  fs::path manifest() const { return directory() / "manifest.json"; }

  void edit_manifest(const std::string& from, const std::string& to) const {
    std::string text = file_text(manifest());
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << text;
    set_file_text(manifest(), text.replace(at, from.size(), to));
  }

  // Replaces model.h5 by an HDF5 file with these contents and a manifest that matches.
  void make_foreign(const std::function<void(hid_t file)>& fill) const {
    const hid_t file = H5Fcreate(model().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    ASSERT_GE(file, 0);
    fill(file);
    ASSERT_GE(H5Fclose(file), 0);
    vouch_for(directory(), 7);
  }

  // Changes model.h5 through HDF5 and makes the manifest match.
  void edit_model(const std::function<void(hid_t file)>& edit) const {
    const hid_t file = H5Fopen(model().c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    ASSERT_GE(file, 0);
    edit(file);
    ASSERT_GE(H5Fclose(file), 0);
    vouch_for(directory(), 7);
  }

 private:
  TemporaryDirectory root_;

 protected:
  const fs::path committed_ = write_sample(root_.path(), 7);
};

void set_number(hid_t file, const char* name, std::int64_t value) {
  const hid_t attribute = H5Aopen(file, name, H5P_DEFAULT);
  EXPECT_GE(H5Awrite(attribute, H5T_NATIVE_INT64, &value), 0);
  EXPECT_GE(H5Aclose(attribute), 0);
}

void add_dataset(hid_t file, const char* name, hid_t type) {
  const hsize_t dims[] = {2};
  const hid_t space = H5Screate_simple(1, dims, nullptr);
  const hid_t dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  EXPECT_GE(dataset, 0);
  EXPECT_GE(H5Dclose(dataset), 0);
  EXPECT_GE(H5Sclose(space), 0);
}

TEST_F(Damage, AFlipOfAnyByteIsNoticed) {
  for (const fs::path& path : {model(), manifest()}) {
    const std::string text = file_text(path);
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    const auto put = [&](std::size_t at, char byte) {
      file.seekp(static_cast<std::streamoff>(at)).put(byte).flush();
    };
    for (std::size_t i = 0; i < text.size(); ++i) {
      put(i, static_cast<char>(text[i] ^ static_cast<char>(1U << (i % 8))));
      EXPECT_THROW(CheckpointReader{directory()}, CheckpointError) << path << " byte " << i;
      put(i, text[i]);
    }
    ASSERT_TRUE(file);
  }
  expect_sample(directory(), 7);
}

TEST_F(Damage, ACutAtAnyLengthIsNoticed) {
  for (const auto& [path, stride] : {std::pair(model(), 61U), std::pair(manifest(), 1U)}) {
    const std::string text = file_text(path);
    for (std::size_t size = 0; size < text.size(); size += stride) {
      set_file_text(path, text.substr(0, size));
      EXPECT_THROW(CheckpointReader{directory()}, CheckpointError) << path << " size " << size;
    }
    set_file_text(path, text + "x");
    EXPECT_THROW(CheckpointReader{directory()}, CheckpointError) << path << " longer";
    set_file_text(path, text);
  }
}

TEST_F(Damage, ATruncatedFileIsNamedWithBothSizes) {
  const auto size = fs::file_size(model());
  fs::resize_file(model(), size - 1);
  EXPECT_THAT(reading_error(directory()),
              AllOf(HasSubstr(model().string()), HasSubstr(std::to_string(size - 1) + " bytes"),
                    HasSubstr(std::to_string(size))));
}

TEST_F(Damage, AMissingFileIsNamed) {
  fs::remove(model());
  EXPECT_THAT(reading_error(directory()), HasSubstr(model().string()));
  fs::remove(manifest());
  EXPECT_THAT(reading_error(directory()), HasSubstr(manifest().string()));
}

TEST_F(Damage, APathThatIsNoDirectoryIsNamed) {
  EXPECT_THAT(reading_error(model()), HasSubstr("is not a checkpoint"));
  EXPECT_THAT(reading_error(directory() / "missing"), HasSubstr("is not a checkpoint"));
}

TEST_F(Damage, ManifestsThatAreNoneAreNamed) {
  for (const char* text : {"", "text", "[]", "7", "{}", "{\"format\": \"other\"}", "\x89HDF\r\n",
                           "{\"format\": \"trireme-checkpoint\", \"version\": \"1\"}",
                           "{\"format\": \"trireme-checkpoint\", \"version\": 1, \"files\": []}"}) {
    set_file_text(manifest(), text);
    EXPECT_THAT(reading_error(directory()), HasSubstr(manifest().string())) << text;
  }
  set_file_text(manifest(), std::string(100'000, '['));
  EXPECT_THAT(reading_error(directory()), HasSubstr("65536 bytes"));
  set_file_text(manifest(), std::string(60'000, '['));
  EXPECT_THAT(reading_error(directory()), HasSubstr(manifest().string()));
}

TEST_F(Damage, ANumberOfTheManifestThatIsNoWholeOneIsRefused) {
  const std::string whole = file_text(manifest());
  for (const char* step : {"1e300", "7.0", "-1e99", "\"7\""}) {
    set_file_text(manifest(), whole);
    edit_manifest("\"step\": 7", std::string("\"step\": ") + step);
    EXPECT_THAT(reading_error(directory()), HasSubstr("no whole number")) << step;
  }
}

TEST_F(Damage, ANewerManifestIsNamedAsSuch) {
  edit_manifest("\"version\": 2", "\"version\": 3");
  EXPECT_THAT(reading_error(directory()), HasSubstr("written by a newer Trireme"));
}

TEST_F(Damage, AManifestOfAnotherStepIsNoticed) {
  edit_manifest("\"step\": 7", "\"step\": 8");
  EXPECT_THAT(reading_error(directory()),
              AllOf(HasSubstr("is of step 8"), HasSubstr("says step 7")));
}

TEST_F(Damage, ADirectoryRenamedToAnotherStepIsNoticed) {
  const fs::path renamed = directory().parent_path() / "step-00000008";
  fs::rename(directory(), renamed);
  EXPECT_THAT(reading_error(renamed), HasSubstr("is of step 7"));
}

TEST_F(Damage, ACopyUnderAFreeNameIsRead) {
  const fs::path copy = directory().parent_path() / "keep this";
  fs::rename(directory(), copy);
  expect_sample(copy, 7);
}

TEST_F(Damage, AModelFileOfAnotherStepIsNoticed) {
  fs::copy_file(write_sample(directory().parent_path(), 8) / "model.h5", model(),
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(reading_error(directory()), HasSubstr("XXH3-128"));
  vouch_for(directory(), 7);
  EXPECT_THAT(reading_error(directory()),
              AllOf(HasSubstr("is of step 8"), HasSubstr("manifest says step 7")));
}

TEST_F(Damage, ATextFileWithAMatchingManifestIsNoHdf5) {
  set_file_text(model(), "just text\n");
  vouch_for(directory(), 7);
  EXPECT_THAT(reading_error(directory()),
              AllOf(HasSubstr("cannot open HDF5 file"), HasSubstr(model().string())));
}

TEST_F(Damage, ForeignHdf5IsNamedAsSuch) {
  make_foreign([](hid_t file) { add_dataset(file, "x", H5T_IEEE_F32LE); });
  EXPECT_THAT(reading_error(directory()), HasSubstr("not one of Trireme"));
}

TEST_F(Damage, ANewerModelFileIsNamedAsSuch) {
  edit_model([](hid_t file) { set_number(file, "trireme_format", 3); });
  EXPECT_THAT(reading_error(directory()), HasSubstr("written by a newer Trireme"));
}

TEST_F(Damage, AModelFileOfAnotherFormatThanItsManifestSaysIsNoticed) {
  edit_manifest("\"version\": 2", "\"version\": 1");
  EXPECT_THAT(reading_error(directory()),
              AllOf(HasSubstr("is of format 2"), HasSubstr("manifest says format 1")));
}

TEST_F(Damage, AMissingStateIsNamed) {
  edit_model([](hid_t file) { ASSERT_GE(H5Ldelete(file, "state", H5P_DEFAULT), 0); });
  EXPECT_THAT(reading_error(directory()), HasSubstr("dataset state"));
}

TEST_F(Damage, AMissingStepIsNamed) {
  edit_model([](hid_t file) { ASSERT_GE(H5Ldelete(file, "step", H5P_DEFAULT), 0); });
  EXPECT_THAT(reading_error(directory()), HasSubstr("dataset step"));
  edit_model([](hid_t file) { set_number(file, "trireme_format", 1); });
  EXPECT_THAT(reading_error(directory()), HasSubstr("attribute step"));
}

TEST_F(Damage, AStepThatIsNoNumberIsNamed) {
  edit_model([](hid_t file) {
    ASSERT_GE(H5Ldelete(file, "step", H5P_DEFAULT), 0);
    ASSERT_GE(H5Lcreate_hard(file, "parameters/mask", file, "step", H5P_DEFAULT, H5P_DEFAULT), 0);
  });
  EXPECT_THAT(reading_error(directory()), HasSubstr("step is not one 64-bit integer"));
}

TEST_F(Damage, AStateThatIsNoTextIsNamed) {
  edit_model([](hid_t file) {
    ASSERT_GE(H5Ldelete(file, "state", H5P_DEFAULT), 0);
    add_dataset(file, "state", H5T_STD_U8LE);
  });
  EXPECT_THAT(reading_error(directory()), HasSubstr("not a single UTF-8 text"));
}

TEST_F(Damage, AnArrayOfAnotherTypeIsNamed) {
  edit_model([](hid_t file) { add_dataset(file, "parameters/odd", H5T_STD_I16BE); });
  EXPECT_THAT(reading_error(directory()), HasSubstr("array parameters/odd has a type other than"));
}

TEST_F(Damage, AnArrayWithoutItsDataIsNamed) {
  edit_model([](hid_t file) { add_dataset(file, "parameters/hole", H5T_IEEE_F32LE); });
  EXPECT_THAT(reading_error(directory()), HasSubstr("array parameters/hole is not stored"));
}

TEST_F(Damage, LinksOutOfTheFileAreRefused) {
  edit_model([](hid_t file) {
    ASSERT_GE(
        H5Lcreate_external("/etc/passwd", "/", file, "parameters/out", H5P_DEFAULT, H5P_DEFAULT),
        0);
  });
  EXPECT_THAT(reading_error(directory()), HasSubstr("holds a link"));
}

TEST_F(Damage, AGroupThatContainsItselfEndsInAnError) {
  edit_model([](hid_t file) {
    ASSERT_GE(
        H5Lcreate_hard(file, "parameters", file, "parameters/again", H5P_DEFAULT, H5P_DEFAULT), 0);
  });
  EXPECT_THAT(reading_error(directory()), HasSubstr("nested too deeply"));
}

TEST_F(Damage, AnObjectOfAnotherKindIsNamed) {
  edit_model([](hid_t file) {
    const hid_t type = H5Tcopy(H5T_IEEE_F32LE);
    ASSERT_GE(H5Tcommit2(file, "kind", type, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), 0);
    ASSERT_GE(H5Tclose(type), 0);
  });
  EXPECT_THAT(reading_error(directory()), HasSubstr("neither an array nor a group"));
}

TEST_F(Damage, ALinkInPlaceOfTheModelFileIsRefused) {
  const fs::path elsewhere = directory().parent_path() / "elsewhere.h5";
  fs::rename(model(), elsewhere);
  fs::create_symlink(elsewhere, model());
  EXPECT_THAT(reading_error(directory()), HasSubstr("symbolic link"));
}

}  // namespace
}  // namespace trireme::test
