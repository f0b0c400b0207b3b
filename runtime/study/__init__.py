"""The study: what masking buys, compared with other ways to get valid tool calls.

Every strategy answers all questions through the same engine; `callgate study` prints what comes of it.

    check_folder(folder)
    findings = run_study(load_model("demo"), StudySettings(count=30), lambda what, done, total: None)
    report = StudyReport(findings)
    print(report.summary())
    for line in write_report(report, folder):
        print(line)

A question's way: `questions` -> `strategies` (how it is shown) with `output_grammars` -> `answering` (the
engine, `subject` being the model) -> `judging` by way of the `lenient_parser` -> `results` -> `study_report`.
"""

from runtime.study.output_folder import check_folder, write_report
from runtime.study.results import StudySettings
from runtime.study.run import OnProgress, run_study
from runtime.study.study_report import StudyReport

__all__ = ["OnProgress", "StudyReport", "StudySettings", "check_folder", "run_study", "write_report"]
