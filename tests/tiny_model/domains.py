"""The domains of tools, one row each; those that are held out are never trained on.

A held-out row shares no word with a training row: every word in it is new to the model.
"""

from dataclasses import dataclass

TEXT, PERSON, CODE, COUNT, AMOUNT, DATE, TIME, FLAG, CHOICE, WORDS, RECORD = (
    "text",
    "person",
    "code",
    "count",
    "amount",
    "date",
    "time",
    "flag",
    "choice",
    "words",
    "record",
)
"""Kinds of parameters."""


@dataclass(frozen=True, slots=True)
class Domain:
    """Words for tools: nouns, verbs with a synonym each, and attributes, which are parameters and their kinds."""

    name: str
    nouns: tuple[str, ...]
    verbs: tuple[tuple[str, str], ...]
    attributes: tuple[tuple[str, str], ...]
    choices: tuple[str, ...]

    @property
    def words(self) -> frozenset[str]:
        """Every word of the row."""
        verbs = (verb for pair in self.verbs for verb in pair)
        attributes = (word for name, _ in self.attributes for word in name.split("_"))
        choices = (word for choice in self.choices for word in choice.split("_"))
        return frozenset((self.name, *self.nouns, *verbs, *attributes, *choices))


def _domain(name: str, nouns: str, verbs: str, attributes: str, choices: str) -> Domain:
    return Domain(
        name,
        tuple(nouns.split()),
        tuple((verb.partition("/")[0], verb.partition("/")[2] or verb) for verb in verbs.split()),
        tuple(
            (attribute, kind)
            for kind, _, names in (group.partition(":") for group in attributes.split())
            for attribute in names.split(",")
        ),
        tuple(choices.split()),
    )


TRAINING = (
    _domain(
        "calendar",
        "meeting appointment event reminder",
        "schedule/arrange cancel/drop",
        "text:title,agenda person:organizer,attendee code:event_id count:duration date:day time:start "
        "flag:recurring choice:visibility words:invitees record:venue",
        "private public busy",
    ),
    _domain(
        "mail",
        "message email draft newsletter",
        "send/dispatch forward/relay",
        "text:subject,body person:sender,recipient code:thread count:copies date:deliver time:delivery "
        "flag:encrypted choice:importance words:cc record:signature",
        "low normal urgent",
    ),
    _domain(
        "billing",
        "invoice payment refund receipt",
        "issue/create settle/pay",
        "text:memo person:payer,customer code:invoice_number amount:total,tax date:due flag:paid "
        "choice:currency words:items record:account",
        "eur usd gbp jpy",
    ),
    _domain(
        "travel",
        "flight hotel trip ticket",
        "book/reserve change/modify",
        "text:destination,origin person:traveller,passenger code:booking count:guests,nights date:departure "
        "time:checkin flag:breakfast choice:cabin words:stopovers record:luggage",
        "economy business first_class",
    ),
    _domain(
        "storage",
        "file folder archive document",
        "upload/put delete/erase",
        "text:path,filename person:owner code:checksum count:version amount:size date:modified "
        "flag:overwrite choice:permission words:tags record:folder_settings",
        "read write execute",
    ),
    _domain(
        "issues",
        "bug ticketing milestone branch",
        "report/file close/resolve",
        "text:summary,component person:assignee,reporter code:commit count:priority,estimate "
        "date:deadline flag:blocking choice:severity words:labels record:environment",
        "minor major critical",
    ),
    _domain(
        "weather",
        "forecast temperature storm rainfall",
        "predict/estimate_of compare/contrast",
        "text:city,region code:station count:hours amount:latitude,longitude date:from time:at "
        "flag:hourly choice:units words:places record:area",
        "metric imperial kelvin",
    ),
    _domain(
        "music",
        "song album playlist concert",
        "play/start_playing shuffle/mix",
        "text:track,artist person:singer code:disc count:volume,position amount:speed flag:repeat "
        "choice:genre words:queue record:equalizer",
        "jazz rock classical folk",
    ),
    _domain(
        "kitchen",
        "recipe meal ingredient menu",
        "cook/prepare suggest/recommend",
        "text:dish,cuisine person:chef count:servings,calories amount:weight time:dinner flag:vegetarian "
        "choice:course words:spices record:oven",
        "starter main dessert",
    ),
    _domain(
        "health",
        "patient prescription diagnosis vaccine",
        "admit/register_in discharge/release",
        "text:symptom,allergy person:doctor,nurse code:chart count:age,pulse amount:dose date:birth "
        "time:visit flag:smoker choice:ward words:medicines record:insurance",
        "surgery pediatrics oncology",
    ),
    _domain(
        "shop",
        "product order cart coupon",
        "buy/purchase return/send_back",
        "text:brand,color person:buyer code:sku count:quantity,stock amount:price,discount date:shipped "
        "flag:giftwrap choice:shipping words:wishlist record:address",
        "standard express overnight",
    ),
    _domain(
        "bank",
        "transfer loan deposit cheque",
        "withdraw/take_out approve/confirm",
        "text:purpose person:beneficiary,holder code:iban amount:sum,interest count:instalments "
        "date:maturity flag:joint choice:rating words:guarantors record:collateral",
        "prime fair subprime",
    ),
    _domain(
        "school",
        "lesson exam homework course_plan",
        "teach/give grade/mark",
        "text:topic,classroom person:teacher,student code:syllabus count:points,pages date:term "
        "time:bell flag:graded choice:level words:chapters record:timetable",
        "beginner intermediate advanced",
    ),
    _domain(
        "fleet",
        "truck van driver route",
        "assign/allocate track/follow",
        "text:depot,cargo person:operator code:plate count:mileage,seats amount:fuel date:serviced "
        "time:arrival flag:refrigerated choice:engine words:stops record:trailer",
        "diesel electric hybrid",
    ),
    _domain(
        "home",
        "lamp thermostat door camera",
        "switch/turn lock/secure",
        "text:room,scene person:resident code:serial count:brightness,channel amount:degrees time:wakeup "
        "flag:enabled choice:mode words:devices record:sensor",
        "eco comfort away",
    ),
    _domain(
        "cluster",
        "server container pod database",
        "deploy/launch restart/reboot",
        "text:image,namespace person:maintainer code:digest count:replicas,port amount:cpu,memory "
        "time:window flag:autoscale choice:tier words:zones record:limits",
        "dev staging production",
    ),
    _domain(
        "library",
        "book magazine journal atlas",
        "borrow/lend renew/extend",
        "text:author,publisher person:reader,librarian code:isbn count:edition,copies_left date:published "
        "flag:hardcover choice:shelf words:keywords record:catalogue",
        "fiction science history",
    ),
    _domain(
        "estate",
        "house flat lease tenant",
        "rent/let inspect/check",
        "text:street,district person:landlord,agent code:parcel count:bedrooms,floor amount:rental,acreage "
        "date:available time:viewing flag:furnished choice:heating words:amenities record:mortgage",
        "gas oil wood",
    ),
    _domain(
        "sport",
        "match player team league",
        "sign/recruit score/record",
        "text:stadium,club person:coach,referee code:fixture count:goals,rounds amount:odds date:season "
        "time:kickoff flag:friendly choice:position_played words:lineup record:standings",
        "keeper defender striker",
    ),
    _domain(
        "hiring",
        "candidate interview vacancy contract",
        "hire/employ reject/decline",
        "text:role,department person:applicant,interviewer code:badge count:vacations,experience "
        "amount:salary,bonus date:joining flag:remote choice:seniority words:skills record:reference",
        "junior senior principal",
    ),
    _domain(
        "lab",
        "sample experiment probe culture",
        "measure/gauge analyze/examine",
        "text:reagent,method person:scientist code:batch count:trials,cycles amount:acidity,pressure "
        "date:collected time:incubation flag:sterile choice:phase words:compounds record:centrifuge",
        "solid liquid vapour",
    ),
    _domain(
        "press",
        "article headline photo interviewee",
        "publish/print review/edit",
        "text:caption,section person:editor,columnist code:slug count:words_limit,columns date:embargo "
        "time:broadcast flag:featured choice:language words:sources record:layout",
        "english german spanish",
    ),
    _domain(
        "maps",
        "location landmark road bridge",
        "find/locate measure_up/survey",
        "text:country,postcode person:surveyor code:grid count:zoom,radius amount:altitude,distance "
        "flag:satellite choice:transport words:waypoints record:bounds",
        "walking cycling driving",
    ),
    _domain(
        "support",
        "complaint request callback chatroom",
        "escalate/raise answer/reply",
        "text:problem,feedback person:caller,supervisor code:case count:attempts,waiting date:opened "
        "time:callback_at flag:resolved choice:mood words:attachments record:satisfaction",
        "calm upset angry",
    ),
)

HELD_OUT = (
    _domain(
        "harbor",
        "vessel berth lighthouse anchor",
        "moor/dock tow/haul",
        "text:quay,flagstate person:captain,pilot code:hull count:crew,knots amount:draught date:sailing "
        "time:tide flag:customs choice:ballast words:holds record:manifest",
        "empty partial laden",
    ),
    _domain(
        "orchard",
        "tree harvest beehive sapling",
        "prune/trim irrigate/water",
        "text:cultivar,soil person:grower,picker code:row count:crates,blossoms amount:sugar,yield "
        "date:planted time:sunrise flag:organic choice:pest words:fungi record:rootstock",
        "aphid moth beetle",
    ),
    _domain(
        "museum",
        "exhibit painting sculpture fossil",
        "restore/repair display/show",
        "text:gallery,period person:curator,donor code:accession count:visitors,vitrines "
        "amount:humidity date:acquired time:tour flag:fragile choice:medium words:pigments record:frame",
        "canvas marble bronze",
    ),
    _domain(
        "theatre",
        "rehearsal costume audition premiere",
        "stage/perform cast/enlist",
        "text:script,character person:director,actor code:prop count:acts,spotlights amount:fee "
        "date:opening time:curtain flag:matinee choice:balcony words:understudies record:orchestra",
        "upper centre side",
    ),
    _domain(
        "observatory",
        "telescope comet galaxy spectrum",
        "observe/watch calibrate/adjust",
        "text:constellation,filter person:astronomer code:scan count:exposures,pixels "
        "amount:magnitude,redshift date:eclipse time:dusk flag:cooled choice:dome "
        "words:targets record:mirror",
        "sealed tilted ajar",
    ),
    _domain(
        "foundry",
        "mould alloy furnace ingot",
        "smelt/melt forge/hammer",
        "text:pattern_name,supplier person:foreman code:heat count:castings,shifts amount:carbon,hardness "
        "date:poured time:tapping flag:annealed choice:finish words:additives record:crucible",
        "matte polished brushed",
    ),
)
