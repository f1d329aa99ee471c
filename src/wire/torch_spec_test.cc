#include "wire/torch_spec.h"

#include <gtest/gtest.h>

#include <utility>

namespace probing::wire {
namespace {

TEST(TorchSpec, WhatIsRightIsWrittenTheOneWay) {
  for (const auto& [text, canonical] : {
           std::pair{"off", "off"},
           {"", "off"},
           {"0", "off"},
           {"on", "on"},
           {"1", "on"},
           {"steps", "steps"},
           {"full", "on,rate=1"},
           {"full,backward=no", "on,rate=1,backward=off"},
           {"steps,exprs=loss@train,nan=1", "steps,nan=on,exprs=loss@train"},
           {"on,census=1", "on,census=on"},
           {"full,modules=a,b,census=20", "on,rate=1,census=20,modules=a,b"},
           {"steps,census=no", "steps,census=off"},
           {"on, backward=0 , rate=5%", "on,rate=0.05,backward=off"},
           {"on,exprs=loss@train,acc1@train", "on,exprs=loss@train,acc1@train"},
           {"on,exprs=loss@train,m.loss@a b/x.py:12,modules=encoder.*,head.[0-9],rate=.5",
            "on,rate=0.5,modules=encoder.*,head.[0-9],exprs=loss@train,m.loss@a b/x.py:12"},
       }) {
    Result<std::string> value = CanonicalTorchSpec(text);
    ASSERT_TRUE(value.ok()) << text << ": " << value.error().message;
    EXPECT_EQ(*value, canonical) << text;
    EXPECT_EQ(*CanonicalTorchSpec(*value), *value) << text;
  }
}

TEST(TorchSpec, WhatIsWrongIsNamedWithWhatWouldBeRight) {
  for (const auto& [text, message, hint] : {
           std::tuple{"an", "it cannot begin with \"an\"", "it takes off, or on"},
           {"rate=1", "it cannot begin with \"rate=1\"", "it takes off, or on"},
           {"off,rate=1", "off goes alone", "it takes off, or on"},
           {"on,", "it is not clear what \"\" means", "it takes off, or on"},
           {"on,loss@train", "it is not clear what \"loss@train\" means", "it takes off, or on"},
           {"on,rat=1", "there is no option \"rat\"", "did you mean rate?"},
           {"on,rate=0", "rate cannot be \"0\"", "it is the share of the steps"},
           {"on,rate=nan", "rate cannot be \"nan\"", "it is the share of the steps"},
           {"on,rate=2", "rate cannot be \"2\"", "it is the share of the steps"},
           {"on,rate=1,rate=1", "rate is there twice", "it takes off, or on"},
           {"full,rate=0.5", "rate is there twice", "it takes off, or on"},
           {"on,backward=maybe", "backward cannot be \"maybe\"", "it takes on or off"},
           {"on,census=-1", "census cannot be \"-1\"", "it takes on, off, or 10"},
           {"on,census=1234567", "census cannot be \"1234567\"", "it takes on, off, or 10"},
           {"steps,census=on", "census counts at the end of traced steps, and steps traces none",
            "begin with on"},
           {"on,modules=", "modules cannot be \"\"", "it takes paths"},
           {"on,exprs=loss", "exprs cannot be \"loss\"", "it takes NAME@FUNCTION"},
           {"on,exprs=f()@train", "exprs cannot be \"f()@train\"", "it takes NAME@FUNCTION"},
           {"on,exprs=loss@x.py:", "exprs cannot be \"loss@x.py:\"", "it takes NAME@FUNCTION"},
       }) {
    Result<std::string> value = CanonicalTorchSpec(text);
    ASSERT_FALSE(value.ok()) << text;
    EXPECT_EQ(value.error().code, Code::kUsage);
    EXPECT_EQ(value.error().message, std::string("probing.torch.profiling: ") + message);
    EXPECT_TRUE(value.error().hint.starts_with(hint)) << text << ": " << value.error().hint;
  }
}

}  // namespace
}  // namespace probing::wire
