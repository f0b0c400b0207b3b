"""The study: what masking buys, compared with other ways to get valid tool calls.

Every strategy answers all questions through the same engine; `callgate study` prints what comes of it.

    check_folder(folder)
    findings = run_study(load_model("demo"), StudySettings(count=30), lambda what, done, total: None, folder)
    report = StudyReport(findings)
    print(report.summary())
    for line in write_report(report, folder):
        print(line)

What happens to a question of `questions`: one of the `strategies` says how it is shown to the
`studied_model`, and with which of the `output_grammars`. `answering` runs it through the engine. `judging`
judges the output, which `lenient_parser` parses. `journal` writes every answer down, so that a study that was
stopped goes on. `results` collects the answers, and `study_report` makes
tables of them, which `output_folder` writes. `study_runner` does this for all questions.
"""

from runtime.study.output_folder import check_folder, write_report
from runtime.study.results import StudySettings
from runtime.study.study_report import StudyReport
from runtime.study.study_runner import OnProgress, run_study

__all__ = ["OnProgress", "StudyReport", "StudySettings", "check_folder", "run_study", "write_report"]
