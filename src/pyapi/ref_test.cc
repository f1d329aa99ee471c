#include "pyapi/ref.h"

#include <gtest/gtest.h>

#include <vector>

namespace probing::pyapi {
namespace {

int count = 0;  // references to the one object there is
char object_memory;
PyObject* const object = reinterpret_cast<PyObject*>(&object_memory);

PythonApi CountingApi() {
  PythonApi api{};
  api.Py_IncRef = [](PyObject*) { ++count; };
  api.Py_DecRef = [](PyObject*) { --count; };
  return api;
}
const PythonApi api = CountingApi();

class RefTest : public testing::Test {
 protected:
  void SetUp() override { count = 1; }
};

TEST_F(RefTest, ANewReferenceIsTakenOver) {
  {
    const Ref ref = Ref::New(api, object);
    EXPECT_EQ(ref.get(), object);
    EXPECT_EQ(count, 1);
  }
  EXPECT_EQ(count, 0);
}

TEST_F(RefTest, ABorrowedOneStaysWithItsOwner) {
  {
    const Ref ref = Ref::Borrowed(api, object);
    EXPECT_EQ(count, 2);
  }
  EXPECT_EQ(count, 1);
}

TEST_F(RefTest, NullIsNoReference) {
  EXPECT_FALSE(Ref::New(api, nullptr));
  EXPECT_FALSE(Ref::Borrowed(api, nullptr));
  EXPECT_FALSE(Ref());
  EXPECT_EQ(count, 1);
}

TEST_F(RefTest, AMovedOneIsGivenBackOnce) {
  {
    Ref one = Ref::New(api, object);
    std::vector<Ref> many;
    many.push_back(std::move(one));
    many.push_back(Ref());  // moves the first one, where there is no room
    EXPECT_FALSE(one);      // NOLINT: that is the question
    EXPECT_EQ(count, 1);
  }
  EXPECT_EQ(count, 0);
}

TEST_F(RefTest, WhatIsReplacedIsGivenBack) {
  Ref ref = Ref::Borrowed(api, object);
  ref = Ref::Borrowed(api, object);
  EXPECT_EQ(count, 2);
  ref = {};
  EXPECT_EQ(count, 1);
}

TEST_F(RefTest, WhatIsReleasedIsTheCallers) {
  {
    Ref ref = Ref::Borrowed(api, object);
    EXPECT_EQ(ref.release(), object);
  }
  EXPECT_EQ(count, 2);
}

}  // namespace
}  // namespace probing::pyapi
