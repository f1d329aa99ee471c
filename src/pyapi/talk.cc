#include "pyapi/talk.h"

#include "pyapi/at_step_source.h"
#include "pyapi/codes_source.h"
#include "pyapi/complete_source.h"
#include "pyapi/debug_events_source.h"
#include "pyapi/debug_questions_source.h"
#include "pyapi/debug_words_source.h"
#include "pyapi/debugger_source.h"
#include "pyapi/ipython_source.h"
#include "pyapi/kineto.h"
#include "pyapi/magics_source.h"
#include "pyapi/monitoring_source.h"
#include "pyapi/post_mortem_source.h"
#include "pyapi/profile_source.h"
#include "pyapi/recompile_source.h"
#include "pyapi/rewrite_source.h"
#include "pyapi/run_source.h"
#include "pyapi/script_source.h"
#include "pyapi/show_source.h"
#include "pyapi/talk_functions.h"
#include "pyapi/watch_source.h"

namespace probing::pyapi {

bool AddTalk(const PythonApi& api, PyObject* names) {
  if (!AddTalkFunctions(api, names) || !AddKinetoFunction(api, names)) return false;
  for (const char* source :
       {kShowSource, kCompleteSource, kAtStepSource, kProfileSource, kMagicsSource, kRecompileSource,
        kCodesSource, kWatchSource, kMonitoringSource, kRewriteSource, kDebuggerSource, kDebugEventsSource,
        kDebugWordsSource, kDebugQuestionsSource, kPostMortemSource, kScriptSource, kIpythonSource}) {
    if (!RunSource(api, source, names)) return false;
  }
  return true;
}

}  // namespace probing::pyapi
