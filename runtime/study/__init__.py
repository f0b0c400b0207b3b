"""The study: what masking gains, compared with other ways to get valid tool calls.

Every strategy answers all questions through the same engine; `callgate study` prints the results.

    check_folder(folder)
    findings = run_study(loaded, StudySettings(count=30), lambda what, done, total: None, folder)
    report = StudyReport(findings)
    print(report.summary())
    for line in write_report(report, folder):
        print(line)

A question passes these files:

    questions         the questions, with the tools and the right call of each
    strategies        how a question is shown, with which grammar, and with how many attempts
    studied_model     the model: its prompts and call syntaxes
    output_grammars   the grammars of the strategies
    answering         runs a question through the engine
    judging           judges the output, which `lenient_parser` parses
    journal           keeps every answer, so that a study that was stopped can continue
    results           collects the answers
    study_report      makes tables of them, which `output_folder` writes
    remarks           says in sentences what the tables do not count
    study_runner      does all this for every question
"""

from runtime.study.output_folder import check_folder, write_report
from runtime.study.results import StudySettings
from runtime.study.study_report import StudyReport
from runtime.study.study_runner import OnProgress, run_study

__all__ = ["OnProgress", "StudyReport", "StudySettings", "check_folder", "run_study", "write_report"]
